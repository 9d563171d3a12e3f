"""Arguments of tools as language models write them, and answers within what clients of MCP take.

Clients show a model either the structured content or the text, so each holds the whole answer and is bounded by itself.
What is left out is said among the `warnings`, with how to read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from schemas.configuration import JsonSchema
from schemas.storage.joined_text import joined_text

if TYPE_CHECKING:
    from schemas.records import Group  # which would import numpy

Json = dict[str, Any]

MAX_TOKENS = 8_000
"""The tokens of an answer, unless its caller says otherwise."""
BYTES_OF_TOKEN = 3
"""As structured content has, with its names, numbers and ids: English prose has four or more."""
BYTES_OF_PLACE = 120
"""What is said of a chunk beside its text."""
MOST_AROUND = 100
"""The chunks before and after a result that are read where nobody says how many."""
LENGTHS = (2_000, 1_000, 600)
"""The characters to which long texts are cut, one after another, until an answer fits."""
_SENTENCE = 1_000
_LISTS = {
    "rag_query": ("results", "max_tokens above {tokens} gives more, and where, collections or limit narrow the search"),
    "rag_context_search": ("results", "a smaller limit or a filter narrows the search"),
    "rag_collections": ("collections", "after {last} lists on"),
    "rag_context": ("sources", "a topic or collections narrow it"),
}


def unquoted(arguments: object, schema: JsonSchema) -> object:
    """Return arguments with numbers, booleans, lists and objects where the schema has them and a text says one, and
    with a list of names where one name stands. What says none stays, to be refused."""
    if not isinstance(arguments, Mapping):
        return arguments
    properties = schema.get("properties", {})
    return {name: _unquoted(value, properties.get(name, {})) for name, value in arguments.items()}


def _unquoted(value: object, schema: JsonSchema) -> object:
    kind = str(schema.get("type"))
    if not isinstance(value, str) or kind not in _KINDS:
        return value
    try:
        said = orjson.loads(value.strip())
    except orjson.JSONDecodeError:
        said = None
    if isinstance(said, _KINDS[kind]) and isinstance(said, bool) == (kind == "boolean"):
        return said
    return [value] if kind == "array" and value.strip() and value.lstrip()[0] not in "[{" else value


_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "integer": (int, float),
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def bounded(name: str, result: Json, max_tokens: int = MAX_TOKENS) -> Json:
    """Return a tool's result within so many tokens, its long texts cut and the last of its list left out."""
    most = max_tokens * BYTES_OF_TOKEN
    if name not in _LISTS or _size(result) <= most:
        return result
    field, how = _LISTS[name]
    said: list[str] = []
    if "context" in result:
        context = cut(result["context"], most * 2 // 3)
        if context != result["context"]:
            said.append("The text is cut: a topic or collections narrow it, and rag_gather reads a source whole")
        result = {**result, "context": context}
    items = result[field]
    room = most - _size({**result, field: []}) - _SENTENCE
    for characters in LENGTHS:
        if sum(map(_size, items)) <= room or not any("content" in each for each in items):
            break
        items = [_shortened(each, characters) for each in result[field]]
    if items != result[field]:
        said.append(f"Texts are cut to {characters} characters: rag_gather reads them whole")
    shown: list[Json] = []
    for item in items:
        room -= _size(item) + 1
        if room < 0 and shown:
            break
        shown.append(item)
    if len(shown) < len(items):
        hint = how.format(tokens=max_tokens, last=shown[-1].get("name"))
        said.append(f"Shown are {len(shown)} of {len(items)} {field}: {hint}")
    return {**result, field: shown, "warnings": [*result.get("warnings", ()), *said]}


def around_hit(group: Group, max_tokens: int) -> tuple[Group, list[str]]:
    """Return (the chunks around the one that was named which are within so many tokens, with their text; sentences on
    what is left out)."""
    most = max_tokens * BYTES_OF_TOKEN
    documents = group.documents
    first = last = next(at for at, each in enumerate(documents) if each.id in group.hits)
    said = []
    if (length := len(documents[first].text.encode())) > most:
        said.append(
            f"The chunk is cut to {max_tokens} of some {length // BYTES_OF_TOKEN} tokens: max_tokens reads more"
        )
        documents = [replace(each, text=cut(each.text, most)) for each in documents[first : first + 1]]
        places, last = group.places[first : first + 1], 0
        first = 0
    else:
        places = group.places
        room = most - length - BYTES_OF_PLACE
        sizes = [len(each.text.encode()) + BYTES_OF_PLACE for each in documents]
        is_open = True
        while is_open:
            is_open = False
            if last + 1 < len(documents) and sizes[last + 1] <= room:
                last, is_open = last + 1, True
                room -= sizes[last]
            if first and sizes[first - 1] <= room:
                first, is_open = first - 1, True
                room -= sizes[first]
    shown, places = documents[first : last + 1], places[first : last + 1]
    text = joined_text([each.text for each in shown], places)
    if len(shown) < group.total:
        on = [f"Shown are chunks {places[0]} to {places[-1]} of {group.total}"]
        if places[-1] < group.total:
            on.append(f"chunk_id {shown[-1].id} with before 0 and after {MOST_AROUND} reads on")
        if places[0] > 1:
            on.append(f"chunk_id {shown[0].id} with before {MOST_AROUND} and after 0 reads what is before")
        said.append("; ".join(on))
    return replace(group, documents=shown, places=places, text=text), said


def cut(text: str, most_bytes: int) -> str:
    """Return a text of at most so many bytes, cut between lines or words where there are any."""
    content = text.encode()
    if len(content) <= most_bytes:
        return text
    beginning = content[:most_bytes].decode(errors="ignore")
    end = max(beginning.rfind(sign) for sign in "\n ")
    return f"{beginning[:end] if end > len(beginning) // 2 else beginning} …"


def _shortened(item: Json, characters: int) -> Json:
    content = item.get("content", "")
    return item if len(content) <= characters else {**item, "content": f"{content[:characters].rstrip()} …"}


def _size(value: Any) -> int:
    return len(orjson.dumps(value))
