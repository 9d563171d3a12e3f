"""What a request says beside the necessary: a server that refuses it is asked without, and no longer with it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from providers.outbound.json_client import JsonClient
from providers.outbound.refusals import RefusedRequestError

_IS_VAGUE = re.compile(
    "^$|param|field|argument|extra|permitted|propert|encod|format|validation|(bad|invalid) request|unprocessable",
    re.IGNORECASE,
)


class OptionalFields:
    """Sends requests with fields that only make the answer better, for several threads.

    A field counts as refused when the service names it or its value; before a first request was accepted, also when
    what it says may be about any field, unless the field is one of `if_named`. `refused` has the service's refusal of
    each field that is left out: since a request without it was accepted, or it was named where a list of texts was
    refused as well, which takes another request.
    """

    def __init__(self, service: JsonClient, if_named: Collection[str] = ()) -> None:
        self._service = service
        self._if_named = if_named
        self._has_answered = False
        self.refused: Mapping[str, RefusedRequestError] = {}

    def post(self, path: str, body: Mapping[str, Any], optional: Mapping[str, Any]) -> Any:
        """Send the body with the optional fields and return the answer. Raises what `JsonClient.post` raises, and the
        last refusal when it is about something else."""
        refused = dict(self.refused)
        while True:
            fields = {name: value for name, value in optional.items() if name not in refused}
            try:
                answer = self._service.post(path, {**body, **fields})
            except RefusedRequestError as refusal:
                doubted = self._doubted(fields, refusal)
                if not doubted:
                    if refusal.wants_string:
                        self.refused = refused
                    raise
                refused |= dict.fromkeys(doubted, refusal)
            else:
                self.refused, self._has_answered = refused, True
                return answer

    def _doubted(self, fields: Mapping[str, Any], refusal: RefusedRequestError) -> list[str]:
        named = [
            name
            for name, value in fields.items()
            if refusal.names(name) or (isinstance(value, str) and refusal.names(value))
        ]
        if (
            named
            or self._has_answered
            or refusal.wants_string
            or not _IS_VAGUE.search(str(refusal.details.get("reason", "")))
        ):
            return named
        return [name for name in fields if name not in self._if_named]
