"""The body of an erasure and its receipt as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from marshmallow import ValidationError, post_load

from schemas.storage.erasure import ErasureRequest, Receipt
from schemas.wire.body import ExactBody
from schemas.wire.checked_fields import Flag, FullName, Words
from schemas.wire.fields import Filter


class Erasure(ExactBody):
    collection = FullName(load_default=None)
    where = Filter(load_default=None)
    document = Words(load_default=None)
    user = Words(load_default=None)
    all = Flag(load_default=False)

    @post_load
    def _one(self, loaded: dict[str, Any], **_: Any) -> dict[str, Any]:
        asked = [name for name in ("where", "document", "user") if loaded[name] is not None]
        if not asked:
            raise ValidationError("is required, or document, or user", "where")
        if len(asked) > 1:
            raise ValidationError(f"must not come with {asked[0]}", asked[1])
        if loaded["user"] is None and loaded["collection"] is None:
            raise ValidationError("is required", "collection")
        if loaded["user"] is not None and loaded["collection"] is not None:
            raise ValidationError("must not come with user", "collection")
        return {"request": ErasureRequest(may_empty=loaded.pop("all"), **loaded)}


ERASURE = Erasure()


def erasure_receipt(receipt: Receipt) -> dict[str, Any]:
    told = asdict(receipt)
    return {"receipt": {**{name: told[name] for name in told if name != "places"}, "files": told["places"]}}
