"""A service with keys, as its clients see it: one that runs, and one in this process."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import requests
from flask import Flask

from schemas.access.api_keys import Grant
from schemas.access.callers import Scope
from schemas.settings import WrapperSettings
from tests.support.contract import Contract
from tests.support.live import PATIENCE_SECONDS, LiveService, eventually
from wrapper.access.directory_keys import open_keys
from wrapper.access.stored_keys import StoredKeys

CANARY = "canary-7f3d"
"""Part of everything that belongs to somebody else: names, ids, texts, metadata."""
MINE, THEIRS = "mine-docs", f"theirs-{CANARY}"
FOREIGN_DATABASE = "theirs"
"""A database of the tenant of somebody else, which is called like the canary."""
PROMISED_SECONDS = 2.0
"""How long a revoked key may still be taken."""


def _document(name: str, text: str, embedding: list[float], **metadata: Any) -> dict[str, Any]:
    return {"id": name, "text": text, "metadata": metadata, "embedding": embedding}


DOCUMENTS = [
    _document("open", "The door opens at nine.", [1.0, 0.0], public=True, group=1),
    _document("shut", "The safe is behind the mirror.", [0.0, 1.0], public=False, group=1),
]
SECRETS = [_document(f"{CANARY}-1", f"{CANARY} the door of somebody else", [1.0, 1.0], group=CANARY, public=True)]
SCOPES = ("read", "write", "manage", "chat", "connect", "metrics", "admin")


@dataclass(frozen=True, slots=True)
class Answer:
    """What `requests` would return."""

    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        return orjson.loads(self.content)


class Keyed(ABC):
    """A service that wants keys, with a collection of somebody else whose every text is a canary."""

    keys: dict[str, str]
    """The texts of keys by what they are: a scope (all collections), `mine` (everything in the collections that begin
    with `mine`), `filtered`, `expired`, `revoked`, `wrong`."""
    admin_key: str

    @abstractmethod
    def _send(self, method: str, path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
        """Return the answer. The body is named as `requests` names it."""

    @abstractmethod
    def _stored_keys(self, made_at: datetime) -> Any:
        """Return a context with the service's keys at that time."""

    def _fill(self) -> None:
        for name, documents in ((MINE, DOCUMENTS), (THEIRS, SECRETS)):
            assert self.ask("POST", "/collections", self.admin_key, {"name": name}).status_code == 201
            added = self.ask("POST", f"/collections/{name}/documents", self.admin_key, {"documents": documents})
            assert added.status_code in (201, 202), added.text
        self._fill_database()
        for scope in SCOPES:
            self.keys[scope] = self.new_key(name=scope, scopes=[scope])["key"]
        everything = ["manage", "chat", "connect"]
        self.keys["mine"] = self.new_key(name="mine", scopes=everything, collections=["mine*"])["key"]
        self.keys["filtered"] = self.new_key(
            name="filtered", scopes=["read"], collections=["mine*"], where={"public": True}
        )["key"]
        self.keys["expired"] = self.expired_key()
        revoked = self.new_key(name="revoked", scopes=["admin"])
        self.keys["revoked"] = revoked["key"]
        assert self.ask("DELETE", f"/api/keys/{revoked['id']}", self.admin_key).status_code == 200
        self.keys["wrong"] = f"rw_{'a' * 8}_{'b' * 43}"
        self.wait_until_revoked(self.keys["revoked"])

    def fill_contracts(self) -> None:
        """Store something of somebody else in the collections of all contracts, so that every search has something to
        give away."""
        text = f"The door of the {CANARY} vault opens at midnight."
        said = {"source": "handbook", "doc_type": "ops", "last_update_date": "2025-10-02"}
        document = {"filename": f"{CANARY}.md", "content": text, "metadata": said}
        for path, body in (
            ("/api/rag/ingest", {"source": CANARY, "path": f"{CANARY}.md", "title": CANARY, "text": text}),
            ("/api/rag/documents:batch", {"documents": [document]}),
            ("/tools/rag_context_index", {"content": text}),
        ):
            stored = self.ask("POST", path, self.admin_key, body)
            assert (stored.status_code, stored.json().get("failures", [])) == (200, []), stored.text

    def _fill_database(self) -> None:
        """Make a database of somebody else, with a collection that is called like that of the callers."""
        for path, name in (("", CANARY), (f"/{CANARY}/databases", FOREIGN_DATABASE)):
            assert self.ask("POST", f"/api/v2/tenants{path}", self.admin_key, {"name": name}).status_code == 200
        where = f"?database={CANARY}/{FOREIGN_DATABASE}"
        assert self.ask("POST", f"/collections{where}", self.admin_key, {"name": MINE}).status_code == 201
        place = f"/collections/{MINE}/documents{where}"
        assert self.ask("POST", place, self.admin_key, {"documents": SECRETS}).status_code in (201, 202)

    def new_key(self, **wanted: Any) -> dict[str, Any]:
        """Make a key and return the answer that has its text."""
        made = self.ask("POST", "/api/keys", self.admin_key, wanted)
        assert made.status_code == 201, made.text
        answer: dict[str, Any] = made.json()
        return answer

    def expired_key(self) -> str:
        """Return the text of a key that was made, and has ended, in 2020."""
        made_at = datetime(2020, 1, 1, tzinfo=UTC)
        with self._stored_keys(made_at) as stored:
            ends_at = made_at + timedelta(days=1)
            return stored.create("expired", Grant(frozenset({Scope.ADMIN})), expires_at=ends_at)[1]

    def ask(self, method: str, path: str, key: str | None = None, body: Any = None, **headers: str) -> Any:
        """Ask with a key. A body of bytes is sent as it is, anything else as JSON; headers are named with underscores.
        Answers are checked against the description."""
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        if key is not None:
            sent["Authorization"] = f"Bearer {key}"
        return self._send(method, path, {"data" if isinstance(body, bytes) else "json": body}, sent)

    def call_tool(self, key: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool by MCP over HTTP and return its result."""
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        headers = {"MCP_Protocol_Version": "2025-06-18", "Accept": "application/json, text/event-stream"}
        result: dict[str, Any] = self.ask("POST", "/mcp", key, message, **headers).json()["result"]
        return result

    def wait_until_revoked(self, key: str) -> None:
        """Return when no worker takes the key any more: twenty connections in a row are refused."""
        eventually(lambda: all(self.ask("GET", "/api/me", key).status_code == 401 for _ in range(20)))


@dataclass
class KeyedService(Keyed):
    """A service that runs. Each request has a connection of its own, so that any worker may answer."""

    service: LiveService
    admin_key: str
    catalog_url: str = ""
    keys: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._fill()

    @property
    def url(self) -> str:
        return self.service.url

    def _send(self, method: str, path: str, body: dict[str, Any], headers: dict[str, str]) -> requests.Response:
        with requests.Session() as session:
            answer = session.request(
                method,
                self.url + path,
                **body,
                headers={**headers, "Connection": "close"},
                allow_redirects=False,
                timeout=PATIENCE_SECONDS,
            )
        Contract.load().check_response(
            method, path.partition("?")[0], answer.status_code, dict(answer.headers), answer.content
        )
        return answer

    def _stored_keys(self, made_at: datetime) -> Any:
        settings = WrapperSettings(data_dir=self.service.data_dir, catalog_url=self.catalog_url)
        return open_keys(settings, makes=False, clock=lambda: made_at)


@dataclass
class KeyedApp(Keyed):
    """A service in this process."""

    app: Flask
    admin_key: str
    keys: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._client = self.app.test_client()
        self._fill()

    def _send(self, method: str, path: str, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        answer = self._client.open(path, method=method, **body, headers=headers)
        return Answer(answer.status_code, dict(answer.headers), answer.get_data())

    @contextmanager
    def _stored_keys(self, made_at: datetime) -> Iterator[StoredKeys]:
        yield StoredKeys(self.app.extensions["rag.service"].catalog, lambda: made_at)
