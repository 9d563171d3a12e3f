"""What a request says beside the necessary: a server that refuses it is asked without, and no longer with it."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from typing import Any

from providers.outbound import deadlines
from providers.outbound.json_client import JsonClient
from providers.outbound.refusals import RefusedCallError, RefusedRequestError, is_of_request
from schemas.errors import RagError, UnavailableError

_IS_VAGUE = re.compile(
    "^$|param|field|argument|extra|permitted|propert|encod|format|validation|(bad|invalid) request|unprocessable",
    re.IGNORECASE,
)
_CRASHED = 500
DOUBT_SECONDS = 300.0
"""The time after which a server that has answered is doubted once more."""
_SAYS_NOTHING = re.compile(r"^(internal server error\.?)?$", re.IGNORECASE)


class OptionalFields:
    """Sends requests with fields that only make the answer better, for several threads.

    A field counts as refused when the service names it or its value; before a first request was accepted, also when
    what it says may be about any field, or it fails (500) and says nothing, unless the field is one of `if_named`. What
    a refusal says of any field counts later, too, but once in `DOUBT_SECONDS`: the server may be another one by then.
    A failure has the last attempt go without the fields, or one more where there is a single one.
    `refused` has the service's refusal of each field that is left out: since a request without it was accepted, or it
    was named where a list of texts was refused as well, which takes another request.
    """

    def __init__(self, service: JsonClient, if_named: Collection[str] = ()) -> None:
        self._service = service
        self._if_named = if_named
        self._has_answered = False
        self._doubts_at = 0.0
        self._fails_anyway = False
        self.refused: Mapping[str, RagError] = {}

    def post(self, path: str, body: Mapping[str, Any], optional: Mapping[str, Any]) -> Any:
        """Send the body with the optional fields and return the answer. Raises what `JsonClient.post` raises, and the
        last refusal when it is about something else."""
        refused: dict[str, RagError] = dict(self.refused)
        failure: UnavailableError | None = None

        def left() -> dict[str, Any]:
            return {name: value for name, value in optional.items() if name not in refused}

        def at_last(error: RagError) -> dict[str, Any] | None:
            nonlocal failure
            doubted = self._doubted(left(), error)
            if not doubted or not isinstance(error, UnavailableError):
                return None
            failure = error
            refused.update(dict.fromkeys(doubted, error))
            return {**body, **left()}

        if self._fails_anyway and deadlines.is_single():
            # A part of a call that has failed with the fields and without: neither shows what the other would do.
            return self._service.post(
                path, {**body, **{name: optional[name] for name in left() if name in self._if_named}}
            )
        while True:
            fields = left()
            try:
                with nullcontext() if failure is None else deadlines.single_attempts():
                    answer = self._service.post(path, {**body, **fields}, at_last)
            except (RefusedRequestError, RefusedCallError, UnavailableError) as error:
                if failure is not None:
                    self._fails_anyway = True
                    raise failure from error
                doubted = self._doubted(fields, error)
                if not doubted:
                    if isinstance(error, RefusedRequestError) and error.wants_string:
                        self.refused = refused
                    raise
                failure = error if isinstance(error, UnavailableError) else None
                refused |= dict.fromkeys(doubted, error)
            else:
                self.refused, self._has_answered, self._fails_anyway = refused, True, False
                return answer

    def _doubted(self, fields: Mapping[str, Any], error: RagError) -> list[str]:
        refusal = error.alone if isinstance(error, RefusedCallError) else error
        reason = str(error.details.get("reason", ""))
        if isinstance(refusal, RefusedRequestError):
            named = [
                name
                for name, value in fields.items()
                if refusal.names(name) or (isinstance(value, str) and refusal.names(value))
            ]
            if named or refusal is not error or refusal.wants_string:
                return named
            is_vague = _IS_VAGUE.search(reason) is not None
            may_be_new = is_vague and not is_of_request(reason) and time.monotonic() >= self._doubts_at
        else:
            is_vague = error.details.get("status") == _CRASHED and _SAYS_NOTHING.search(reason) is not None
            may_be_new = False
        doubted = [name for name in fields if name not in self._if_named]
        if not self._has_answered:
            return doubted if is_vague else []
        if doubted and may_be_new:
            self._doubts_at = time.monotonic() + DOUBT_SECONDS
            return doubted
        return []
