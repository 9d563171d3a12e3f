"""Requests that a page makes of the service's own routes, in this process, with the rights of who looks at it.

So a page can show nothing that its reader could not ask for, and the request behind it can be shown as it is: as a
person would type it with curl, in Python and in TypeScript.
"""

from __future__ import annotations

import json
import pprint
import re
import shlex
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from flask import Response
from werkzeug.test import Client, TestResponse
from werkzeug.wrappers import Response as AnyResponse

from interfaces.console.front_doors import SCRIPT_NAME, WsgiApp
from schemas.errors import InvalidInputError, NotFoundError, RagError, UnauthorizedError
from wrapper.web.bodies import CLIENT_WATCH
from wrapper.web.callers import TOGETHER, AnswerBrokenOffError
from wrapper.web.error_statuses import status_of

Json = dict[str, Any]
AnyAnswer = AnyResponse | str | tuple[str, int]
"""What a page is returned as."""
SUCCESS = range(200, 300)
KEPT = ("HTTP_HOST", "REMOTE_ADDR", "HTTP_X_FORWARDED_FOR", "wsgi.url_scheme", "HTTP_X_REQUEST_ID", TOGETHER)
"""The parts of the page's own request that its requests of the service take over."""
NOTHING: Mapping[str, Any] = MappingProxyType({})
WIDTH = 100
_UNSEEN = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A request of the service. `path` is encoded, and without the query."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None

    @property
    def target(self) -> str:
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


class RefusedError(Exception):
    """The service has refused a request of a page."""

    def __init__(self, status: int, body: Json, retry_after: str | None = None) -> None:
        super().__init__(body.get("message", f"The service answered {status}"))
        self.status = status
        self.body = body
        self.retry_after = retry_after
        self.message = str(self)
        self.code = str(body.get("code", ""))
        self.details: Json = body.get("details") or {}


def refused(error: RefusedError | RagError) -> tuple[str, int]:
    """Return what a page says of a request that was refused, by the service or before it, and its status."""
    return error.message, error.status if isinstance(error, RefusedError) else status_of(type(error))


class ReaderLeftError(Exception):
    """Nobody waits for the page any more."""


class Wire:
    """The service as one page asks it, for as long as its reader has not left. `made` are the requests that the page
    shows as its own, in order."""

    def __init__(
        self, app: WsgiApp, page_environ: Mapping[str, Any], key: str | None, has_left: Callable[[], bool]
    ) -> None:
        self._app = app
        self._has_left = has_left
        self._environ = {name: page_environ[name] for name in KEPT if name in page_environ}
        self._environ |= {"SCRIPT_NAME": page_environ.get(SCRIPT_NAME, ""), CLIENT_WATCH: has_left}
        if key is not None:
            self._environ["HTTP_AUTHORIZATION"] = f"Bearer {key}"
        self.made: list[WireRequest] = []

    def get(self, path: str, *, aside: bool = False, **query: Any) -> Json:
        """Return the answer to a GET. One that is `aside` is not among those that the page shows as its own. This and
        all that follow raise RefusedError when the service refuses."""
        return self.answer("GET", path, query=query, aside=aside)[0]

    def post(self, path: str, body: Any = None, *, aside: bool = False) -> Json:
        return self.answer("POST", path, body, aside=aside)[0]

    def delete(self, path: str, body: Any = None, **query: Any) -> None:
        self.answer("DELETE", path, body, query=query)

    def answer(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] = NOTHING,
        aside: bool = False,
        etag: str | None = None,
    ) -> tuple[Json, str]:
        """Return the JSON and the ETag of an answer. With an `etag` only what it names is changed."""
        asked = WireRequest(method, path, _in_query(query), body)
        if not aside:
            self.made.append(asked)
        answer = self._asked(asked, {} if etag is None else {"HTTP_IF_MATCH": etag}, buffered=True)
        return orjson.loads(answer.data or b"{}"), answer.headers.get("ETag", "")

    def download(self, path: str, **query: Any) -> Response:
        """Return an answer as a file to save, sent on as it is made: a browser must not show what somebody has stored
        as if it were a page of this service."""
        answer = self._asked(WireRequest("GET", path, _in_query(query)), {}, buffered=False)
        response = Response(answer.response, mimetype="application/octet-stream", direct_passthrough=True)
        response.call_on_close(answer.close)
        named = answer.headers.get("Content-Disposition", "attachment")
        response.headers["Content-Disposition"] = re.sub("^inline", "attachment", named)
        if "Content-Length" in answer.headers:
            response.headers["Content-Length"] = answer.headers["Content-Length"]
        return response

    def _asked(self, asked: WireRequest, more: dict[str, str], *, buffered: bool) -> TestResponse:
        try:
            payload = None if asked.body is None else orjson.dumps(asked.body)
        except (TypeError, RecursionError):  # surrogates, numbers beyond 64 bits, or too deep
            raise InvalidInputError("Something in this form cannot be sent as JSON") from None
        if self._has_left():
            raise ReaderLeftError
        ask = partial(
            Client(self._app, use_cookies=False).open,
            asked.target,
            method=asked.method,
            data=payload,
            content_type=None if payload is None else "application/json",
            environ_overrides=self._environ | more,
            buffered=buffered,
        )
        try:
            answer = Context().run(ask)  # the page's request goes on around it
        except AnswerBrokenOffError as error:  # the key has ended while a large answer was made
            told = {"message": error.strerror, "code": error.code}
            raise RefusedError(status_of(UnauthorizedError), told) from None
        if answer.status_code in SUCCESS:
            return answer
        with answer:
            told = orjson.loads(answer.data or b"{}")
        raise RefusedError(
            answer.status_code, told if isinstance(told, dict) else {}, answer.headers.get("Retry-After")
        )


def _in_query(given: Mapping[str, Any]) -> dict[str, str]:
    """Return a query string without what is None or empty; filters are JSON there."""
    return {
        name: orjson.dumps(value).decode() if isinstance(value, dict) else str(value)
        for name, value in named(**given).items()
    }


def encoded(*parts: str) -> str:
    """Return a path of these parts, each encoded: what a part says never ends it. Raises NotFoundError for an empty
    one, which would make it the path of something else."""
    if not all(parts):
        raise NotFoundError("There is no such page: a name or id in its address is empty")
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def named(**given: Any) -> Json:
    """Return a body of these fields without those that are None or empty."""
    return {name: value for name, value in given.items() if value not in (None, "", [], (), {})}


def snippets_of(asked: WireRequest, base_url: str, *, needs_key: bool) -> list[tuple[str, str]]:
    """Return a request in each language. `base_url` has no slash at its end; the key is read from `RAG_API_KEY`."""
    languages = (("curl", _curl), ("Python", _python), ("TypeScript", _typescript))
    return [(title, spelled(asked, base_url, needs_key)) for title, spelled in languages]


def _curl(asked: WireRequest, base_url: str, needs_key: bool) -> str:
    words = ["curl -s"]
    if asked.method != ("GET" if asked.body is None else "POST"):
        words.append(f"-X {asked.method}")
    words.append(shlex.quote(base_url + asked.target))
    if needs_key:
        words.append('-H "Authorization: Bearer $RAG_API_KEY"')
    if asked.body is not None:
        words.append(f"--json {shlex.quote(_json(asked.body))}")
    return " \\\n  ".join(words) if len(" ".join(words)) > WIDTH else " ".join(words)


def _python(asked: WireRequest, base_url: str, needs_key: bool) -> str:
    arguments = [repr(asked.method), repr(base_url + asked.path)]
    if asked.query:
        arguments.append(f"params={_literal(dict(asked.query))}")
    if asked.body is not None:
        arguments.append(f"json={_literal(asked.body)}")
    if needs_key:
        arguments.append("headers={'Authorization': f'Bearer {os.environ[\"RAG_API_KEY\"]}'}")
    listed = "".join(f"    {each},\n" for each in arguments)
    imports = "import os\n\nimport requests\n" if needs_key else "import requests\n"
    return f"{imports}\nanswer = requests.request(\n{listed})\nprint(answer.json())"


def _typescript(asked: WireRequest, base_url: str, needs_key: bool) -> str:
    headers = {} if asked.body is None else {'"Content-Type"': '"application/json"'}
    if needs_key:
        headers["Authorization"] = "`Bearer ${process.env.RAG_API_KEY}`"
    options = [f"method: {json.dumps(asked.method)}"]
    if headers:
        options.append(f"headers: {{ {', '.join(f'{name}: {value}' for name, value in headers.items())} }}")
    if asked.body is not None:
        said = _json(asked.body, indent=2).replace("\n", "\n  ")
        options.append(f"body: JSON.stringify({said})")
    listed = "".join(f"  {each},\n" for each in options)
    target = json.dumps(base_url + asked.target)
    return f"const answer = await fetch({target}, {{\n{listed}}});\nconsole.log(await answer.json());"


def _json(value: object, indent: int | None = None) -> str:
    """Return JSON without characters that a terminal obeys or that hide others."""
    said = json.dumps(value, ensure_ascii=False, indent=indent)
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", said)


def _literal(value: object) -> str:
    return pprint.pformat(value, width=WIDTH, sort_dicts=False).replace("\n", "\n    ")
