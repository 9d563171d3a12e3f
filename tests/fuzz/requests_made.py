"""Teach schemathesis what it cannot know of our requests: how bodies are written, and which collections exist."""

import gzip
import json
from typing import Any

import schemathesis
from hypothesis import strategies as st

NAMES = tuple(f"fuzzed-{number}" for number in range(8))
"""The collections that exist at the beginning."""

schemathesis.openapi.format("rust-regex", st.from_regex(r"\A[a-z.]{0,4}(\[a-e\]\+|\(a\|b\)\*)?\Z"))


@schemathesis.serializer("application/json")
def write_json(context: schemathesis.SerializationContext, value: Any) -> bytes:
    return _packed(context, value if isinstance(value, bytes) else json.dumps(value).encode())


@schemathesis.serializer("application/x-ndjson")
def write_lines(context: schemathesis.SerializationContext, value: Any) -> bytes:
    return _packed(context, value if isinstance(value, bytes) else str(value).encode(errors="replace"))


@schemathesis.hook
def flatmap_path_parameters(context: schemathesis.HookContext, parameters: Any) -> Any:
    if not parameters or "name" not in parameters:
        return st.just(parameters)
    return st.sampled_from([parameters, *({**parameters, "name": name} for name in NAMES)])


@schemathesis.hook
def map_query(context: schemathesis.HookContext, query: Any) -> Any:
    """Wait for changes no longer than a second: nothing changes them. And write numbers with at most 20 digits: the
    service refuses longer ones."""
    if not isinstance(query, dict):
        return query
    query = {name: min(each, 10**20 - 1) if type(each) is int else each for name, each in query.items()}
    if isinstance(query.get("wait"), int) and 1 < query["wait"] <= 60:
        query["wait"] = 1
    return query


@schemathesis.hook
def map_body(context: schemathesis.HookContext, body: Any) -> Any:
    """Turn integers beyond 64 bits into floats: the service refuses such integers wherever they stand, even where a
    schema allows anything. And order by no more than 8 different fields, which no schema can tell."""
    order = body.get("order_by") if isinstance(body, dict) else None
    if isinstance(order, list) and all(isinstance(each, str) and each not in ("", "-") for each in order):
        body = {**body, "order_by": order[:8]}
    return _within_64_bits(body)


def _within_64_bits(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _within_64_bits(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_within_64_bits(each) for each in value]
    return float(value) if type(value) is int and not -(2**63) <= value < 2**64 else value


def _packed(context: schemathesis.SerializationContext, content: bytes) -> bytes:
    said = (context.case.headers or {}).get("Content-Encoding", "")
    return gzip.compress(content) if str(said).lower() == "gzip" else content
