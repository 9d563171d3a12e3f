"""Two services that hold the same, or that of it which one may see, and are asked the same; and their answers, without
what differs all the same."""

import re
from typing import Any

import orjson
from flask import Flask

from providers.contract_tests.model import matches
from schemas.access.callers import ANYBODY, acting_as
from tests.properties.strategies import to_batch
from wrapper.store import Store

ID_OF = re.compile(r"@([a-z-]+)")
"""What stands in a path for the id of a collection, which is another in each service."""
NOBODY = "00000000-0000-4000-8000-000000000000"


def copied(source: Flask, target: Flask, where: dict[str, Any]) -> None:
    """Make the collections of the target those of the source, with only the documents that the model says match."""
    with acting_as(ANYBODY):
        from_store, to_store = _store(source), _store(target)
        for each in to_store.collections():
            to_store.delete_collection(each.name)
        for each in sorted(from_store.collections(), key=lambda each: each.key):
            to_store.create_collection(each.name, each.metadata, each.metric)
            with from_store.export(each.name) as (_, blocks):
                found = [one for block in blocks for one in block if matches(where, one.metadata)]
            if found:
                to_store.add_documents(each.name, to_batch(found))


def _store(app: Flask) -> Store:
    store: Store = app.extensions["rag.service"].store
    return store


def resolved(path: str, app: Flask) -> str:
    """Return a path with the ids that the collections have in this service."""

    def id_of(found: re.Match[str]) -> str:
        known = {each.name: each.id for each in _store(app).collections()}
        return known.get(found[1], NOBODY)

    return ID_OF.sub(id_of, path)


UNLIKE = frozenset(
    {
        *("revision", "plan", "plans", "id_of_answer", "context_id", "query_id", "timestamp", "etag", "embeddings"),
        "usage_bytes",  # which who sees only a part is not told
    }
)
"""What differs between two services that hold the same, by its name: when and how fast they answered, and how often
they were written to."""
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|vs_[0-9a-f]{32}")


def comparable(answer: Any) -> Any:
    """Return an answer without what differs between two services that hold the same."""
    if answer.mimetype == "application/json":
        body = _without(answer.json)
    elif answer.mimetype == "application/x-ndjson":
        body = [orjson.loads(line) for line in answer.data.splitlines()]
    else:
        body = answer.data
    return answer.status_code, body, answer.headers.get("X-Document-Count")


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() >= {"content", "isError"} or value.keys() >= {"content", "structuredContent"}:
            value = {key: each for key, each in value.items() if key != "content"}  # the same again, as a text
        if value.keys() >= {"id", "name", "metric"} or "configuration_json" in value:
            value = {key: each for key, each in value.items() if key != "id"}  # of a collection
        return {
            key: each is not None if key == "next_cursor" else _without(each)
            for key, each in value.items()
            if key not in UNLIKE and "atency" not in key and key not in ("cacheHitRate", "request_id")
        }
    if isinstance(value, str):
        return UUID.sub("UUID", value)
    return [_without(each) for each in value] if isinstance(value, list) else value
