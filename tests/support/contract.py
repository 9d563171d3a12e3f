"""Check the status, headers and body of answers against `openapi.yaml`, errors included.

`CheckedClient` does it for an app in this process, `CheckedSession` for a server over HTTP.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import orjson
import requests
import yaml
from flask.testing import FlaskClient
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from referencing import Registry
from referencing.jsonschema import DRAFT202012
from werkzeug.datastructures import Headers
from werkzeug.test import TestResponse

OPENAPI = Path(__file__).parents[2] / "openapi.yaml"
LASTING = ("too_slow", "chat_unavailable", "embedding_unavailable", "search_failed", "engine_access_refused")
LASTING += ("vector_db_unavailable", "vector_db_write_failed")
"""The codes of a 503 that may not pass by itself."""
OTHER_PROTOCOLS = ("/api/v1/", "/api/v2", "/v1/", "/dify/")
"""What the paths of routes begin with that speak other products' protocols, and judge names as those do."""
METHODS = frozenset({"GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"})

_BASE_URI = "urn:openapi"
_EXCERPT_CHARACTERS = 400

Pointer = tuple[str, ...]


class ContractError(AssertionError):
    """An answer that the description does not allow."""


@dataclass(frozen=True, slots=True)
class Described:
    """A schema of the description: `compiled` judges a value, at a fiftieth of the cost at which `told` says what is
    wrong with it."""

    compiled: jsonschema_rs.Draft202012Validator
    told: Validator

    def fault(self, value: Any) -> ValidationError | None:
        """Return what is wrong with a value, None when it is as described."""
        if self.compiled.is_valid(value):
            return None
        return best_match(self.told.iter_errors(value)) or ValidationError("refused by the compiled validator alone")


@dataclass(frozen=True, slots=True)
class DocumentedAnswer:
    """One answer of the description, ready to be checked. A media type without a schema (None) takes any body."""

    headers: dict[str, tuple[bool, Described]]
    media: dict[str, Described | None]


class Contract:
    """An OpenAPI 3.1 document and the answers it allows.

    In addition to the standard's keywords, schemas may say `x-equal: [names]`: these properties hold the same value.
    A path's parameter with `x-slashes` may hold slashes. The root field `x-unrouted-responses` documents the answers to requests that no operation describes,
    and `x-unrouted-responses-below` those to requests below the paths that it names.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._operations = {
            template: {method.upper() for method in item if method.upper() in METHODS}
            for template, item in document["paths"].items()
        }
        self._templates = [
            (_path_pattern(template, _with_slashes(document["paths"][template])), template)
            for template in sorted(self._operations, key=_literal_first)
        ]
        self._registry: Registry[Any] = Registry().with_resource(_BASE_URI, DRAFT202012.create_resource(document))
        self._compiled = jsonschema_rs.Registry([(_BASE_URI, document)])
        self._answers: dict[Pointer, DocumentedAnswer] = {}
        self._schemas: dict[Pointer, Described] = {}

    @staticmethod
    @cache
    def load(path: Path = OPENAPI) -> Contract:
        """Return the contract of a YAML file, which is read once per process."""
        return Contract(yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))

    def described(self) -> set[tuple[str, str]]:
        """Return every operation as (path template, METHOD). HEAD and OPTIONS follow from GET and from the route."""
        return {(template, method) for template, methods in self._operations.items() for method in methods}

    def match(self, path: str) -> str | None:
        """Return the template of an encoded path, or None for an unknown route. Literal segments win over
        parameters."""
        for spelling in (path, path.removesuffix("/")):  # a slash at the end changes nothing
            for pattern, template in self._templates:
                if pattern.fullmatch(spelling):
                    return template
        return None

    def validator(self, pointer: Pointer) -> Validator:
        """Return a validator for the schema at this place of the document."""
        return _ContractValidator({"$ref": _uri(pointer)}, registry=self._registry)

    def _described(self, pointer: Pointer) -> Described:
        place = self.resolve(pointer)
        if place not in self._schemas:
            compiled = jsonschema_rs.Draft202012Validator(
                {"$ref": _uri(place)}, registry=self._compiled, keywords={"x-equal": _Equal}
            )
            self._schemas[place] = Described(compiled, self.validator(place))
        return self._schemas[place]

    def resolve(self, pointer: Pointer) -> Pointer:
        """Return the same place of the document after following every `$ref` on the way."""
        here: Pointer = ()
        for key in pointer:
            here = (*here, key)
            while isinstance(node := self._node(here), dict) and "$ref" in node:
                here = self.resolve(tuple(map(_unescape, node["$ref"].removeprefix("#/").split("/"))))
        return here

    def at(self, pointer: Pointer) -> Any:
        """Return what the document holds at this place, following references. Raise KeyError when it holds nothing
        there."""
        return self._node(self.resolve(pointer))

    def _node(self, pointer: Pointer) -> Any:
        node: Any = self.document
        for key in pointer:
            node = node[int(key)] if isinstance(node, list) else node[key]
        return node

    def check_response(
        self, method: str, path: str, status: int, headers: Mapping[str, str] | Headers, body: bytes
    ) -> None:
        """Raise ContractError unless this answer is documented. `path` is percent-encoded and without the query."""
        try:
            self._check(method.upper(), path, status, {name.lower(): text for name, text in headers.items()}, body)
        except ContractError as error:
            excerpt = body[:_EXCERPT_CHARACTERS].decode(errors="replace")
            raise ContractError(f"{method} {path} answered {status}: {error}\nbody: {excerpt or '(empty)'}") from None

    def _check(self, method: str, path: str, status: int, headers: dict[str, str], body: bytes) -> None:
        template = self.match(path)
        by_route = template is not None and method not in self._operations[template]
        if method == "OPTIONS" and by_route and status not in (403, 421):
            if status not in (200, 204) or body or "allow" not in headers:
                raise ContractError("OPTIONS must answer 200 or 204 with Allow and without a body")
            return
        answer = self._answer(self._documented("GET" if method == "HEAD" else method, path, template, status))
        _check_headers(answer, headers)
        if method == "HEAD" or not answer.media:
            if body:
                raise ContractError("this answer must not have a body")
            return
        _check_body(answer, headers.get("content-type", ""), body)
        if status == 503 and "retry-after" not in headers and orjson.loads(body).get("code") not in LASTING:
            raise ContractError("header Retry-After is missing")

    def _documented(self, method: str, path: str, template: str | None, status: int) -> Pointer:
        code = str(status)
        if template is not None and method in self._operations[template]:
            responses: Pointer = ("paths", template, method.lower(), "responses")
            if code not in self.at(responses):
                operation = self.at(responses[:-1])["operationId"]
                raise ContractError(f"{operation} documents {', '.join(sorted(self.at(responses)))} only")
            return (*responses, code)
        reason = "the route is not described" if template is None else f"{template} does not describe {method}"
        expected = "404" if template is None else "405"
        if code not in (expected, "403", "408", "414", "421", "503"):
            raise ContractError(f"{reason}, which must answer {expected}")
        for face in self.document.get("x-unrouted-responses-below", ()):
            if path == face or path.startswith(f"{face}/"):
                return ("x-unrouted-responses-below", face, code)
        return ("x-unrouted-responses", code)

    def _answer(self, pointer: Pointer) -> DocumentedAnswer:
        place = self.resolve(pointer)
        if place not in self._answers:
            response = self.at(place)
            headers, media = {}, {}
            for name in response.get("headers", {}):
                header = self.resolve((*place, "headers", name))
                headers[name] = (bool(self.at(header).get("required")), self._described((*header, "schema")))
            for media_type, described in response.get("content", {}).items():
                schema = (*place, "content", media_type, "schema")
                media[media_type] = self._described(schema) if "schema" in described else None
            self._answers[place] = DocumentedAnswer(headers, media)
        return self._answers[place]


def is_page(path: str, location: str | None = None) -> bool:
    """Return whether a request is for a page of the console, or led to one: pages are described nowhere."""
    return any(each.startswith("/console/") for each in (path, location or ""))


def error_body(message: str, code: str = "not_found", **details: object) -> dict[str, object]:
    """Return the body of an error as openapi.yaml describes it."""
    return {"error": message, "message": message, "detail": message, "code": code, "details": details}


class CheckedClient(FlaskClient):
    """Flask's test client, which here checks every answer: `app.test_client_class = CheckedClient`."""

    def __init__(self, *args: Any, contract: Contract | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.contract = contract or Contract.load()

    def __enter__(self) -> CheckedClient:
        """Keep no context, unlike Flask's own client: here, as in the service, a request has ended once it is
        answered."""
        return self

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        response = super().open(*args, **kwargs)
        for answer in (*response.history, response):
            request = answer.request
            if is_page(request.path, answer.headers.get("Location")):
                continue
            path = request.environ.get("REQUEST_URI") or quote(request.path)
            content = answer.get_data()
            if answer.headers.get("Content-Encoding") == "gzip":
                content = gzip.decompress(content)
            self.contract.check_response(
                request.method, path.partition("?")[0], answer.status_code, answer.headers, content
            )
        return response


class CheckedSession(requests.Session):
    """A `requests` session that checks every answer of a server whose routes start at the root of its host."""

    def __init__(self, contract: Contract | None = None) -> None:
        super().__init__()
        self.contract = contract or Contract.load()

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        response = super().send(request, **kwargs)
        for answer in (*response.history, response):
            asked = answer.request
            path = asked.path_url.partition("?")[0]
            self.contract.check_response(
                asked.method or "GET", path, answer.status_code, answer.headers, answer.content
            )
        return response


def _check_headers(answer: DocumentedAnswer, headers: dict[str, str]) -> None:
    for name, (required, described) in answer.headers.items():
        text = headers.get(name.lower())
        if text is None:
            if required:
                raise ContractError(f"header {name} is missing")
        elif (fault := described.fault(text)) is not None:
            raise ContractError(f"header {name}: {fault.message}")


def _check_body(answer: DocumentedAnswer, content_type: str, body: bytes) -> None:
    media_type = content_type.partition(";")[0].strip().lower()
    documented = next((key for key in (media_type, "*/*") if key in answer.media), None)
    if documented is None:
        raise ContractError(f"Content-Type is '{content_type}', documented: {', '.join(answer.media)}")
    described = answer.media[documented]
    if described is None or documented != "application/json":
        return
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ContractError(f"the body is not JSON: {error}") from None
    if (fault := described.fault(decoded)) is not None:
        alternatives = "".join(f"; {_shortened(part.message)}" for part in fault.context)
        raise ContractError(f"{fault.json_path}: {_shortened(fault.message)}{alternatives}")


def _shortened(message: str) -> str:
    """Return the message without the middle of a long value, because the fault is stated at its end."""
    if len(message) <= _EXCERPT_CHARACTERS:
        return message
    half = _EXCERPT_CHARACTERS // 2
    return f"{message[:half]} … {message[-half:]}"


def _path_pattern(template: str, with_slashes: frozenset[str]) -> re.Pattern[str]:
    parts = re.split(r"(\{[^}]+\})", template)
    return re.compile("".join(_pattern_of(part, with_slashes) for part in parts))


def _pattern_of(part: str, with_slashes: frozenset[str]) -> str:
    if not part.startswith("{"):
        return re.escape(part)
    return ".+" if part[1:-1] in with_slashes else "[^/]+"


def _with_slashes(item: Mapping[str, Any]) -> frozenset[str]:
    """Return the parameters of a path that may hold slashes, which OpenAPI has no word for: `x-slashes`."""
    given = [
        each for operation in item.values() if isinstance(operation, dict) for each in operation.get("parameters", ())
    ]
    return frozenset(each["name"] for each in given if each.get("x-slashes"))


def _literal_first(template: str) -> list[bool]:
    return [segment.startswith("{") for segment in template.split("/")]


def _uri(pointer: Pointer) -> str:
    steps = (quote(key.replace("~", "~0").replace("/", "~1")) for key in pointer)
    return f"{_BASE_URI}#/{'/'.join(steps)}"


def _unescape(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _differ(names: list[str], instance: Any) -> bool:
    return isinstance(instance, dict) and any(instance.get(name) != instance.get(names[0]) for name in names)


def _equal(validator: Validator, names: list[str], instance: Any, schema: Any) -> Iterator[ValidationError]:
    if _differ(names, instance):
        yield ValidationError(f"{', '.join(names)} must be the same")


class _Equal:
    """`x-equal` as the compiled validators take a keyword."""

    def __init__(self, parent: Any, names: list[str], path: Any) -> None:
        self._names = names

    def validate(self, instance: Any) -> None:
        if _differ(self._names, instance):
            raise ValueError(f"{', '.join(self._names)} must be the same")


_ContractValidator = extend(Draft202012Validator, {"x-equal": _equal})
