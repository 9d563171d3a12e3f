"""Writes the types of the client's answers, `rag_wrapper_client/wire/`, from `openapi.yaml`.

    .venv/bin/python clients/python/wire_types.py

Each object that an answer is made of becomes a TypedDict with the description's own names, so that an answer is used
as it came. Objects without a name in the description are named after the operation or the object that they belong to.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[2]
WIRE = Path(__file__).parent / "src" / "rag_wrapper_client" / "wire"
HEAD = '"""{sentence}\n\nMade from openapi.yaml by `clients/python/wire_types.py`: change that, not this."""\n'
SHARED = "shared"
MODULES = {
    SHARED: "What answers of several subjects are made of.",
    "storage": "Answers about collections and their documents.",
    "searching": "Answers of searches, collects and context tools.",
    "answering": "Answers of what RAG is made of: ingestion, retrieval and chat.",
    "files": "Answers about uploaded files, their jobs and watched folders.",
    "connections": "Answers about connections to models and document stores, and about their providers.",
    "quality": "Answers about judgements and measurements.",
    "service": "Answers about the service itself: its health, keys, settings, backups and audit log.",
}
SUBJECTS = {
    "collections": "storage",
    "documents": "storage",
    "retrieval": "storage",
    "search": "searching",
    "rag": "answering",
    "tools": "searching",
    "collect": "searching",
    "files": "files",
    "watchers": "files",
    "connections": "connections",
    "quality": "quality",
    "keys": "service",
    "service": "service",
}
"""The module of each tag. Tags without one (protocols with clients of their own) have no types here."""
INPUTS = {
    "Gather": "storage",
    "Limits": "service",
    "ChangedApiKey": "service",
    "WatcherReport": "files",
    "RagFilters": "answering",
}
"""What requests, too, are made of."""
LOOSE = {
    "Filter": "dict[str, Any]",
    "Metadata": "dict[str, Any]",
    "Config": "dict[str, Any]",
    "Where": "dict[str, Any] | None",
}
SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
Schema = dict[str, Any]


class Writer:
    """Collects the types that answers need, and writes each into the module of its subject."""

    def __init__(self, document: Schema) -> None:
        self._schemas: dict[str, Schema] = document["components"]["schemas"]
        self._texts: dict[str, str] = {}
        self._needs: dict[str, set[str]] = {}
        self._subjects: dict[str, set[str]] = {}
        self._documents(document)

    def _documents(self, document: Schema) -> None:
        for operation in _operations(document):
            tag = operation["tags"][0]
            if tag not in SUBJECTS:
                continue
            title = _pascal(operation["operationId"]) + "Answer"
            for schema in _answers(operation, document):
                for name in _names(self._spelt(schema, title)):
                    self._used(name, SUBJECTS[tag])
        for name, subject in INPUTS.items():
            self._spelt({"$ref": name}, name)
            self._used(name, subject)

    def _used(self, name: str, subject: str) -> None:
        if name not in self._texts or subject in self._subjects.setdefault(name, set()):
            return
        self._subjects[name].add(subject)
        for needed in self._needs[name]:
            self._used(needed, subject)

    def modules(self) -> dict[str, str]:
        """Return the text of each module by its name."""
        homes = {name: SHARED if len(subjects) > 1 else min(subjects) for name, subjects in self._subjects.items()}
        texts = {}
        for module, sentence in MODULES.items():
            here = sorted(name for name, home in homes.items() if home == module)
            # An alias is evaluated when it is imported, and a base class comes before what is made of it.
            here.sort(key=lambda name: (self._depth(name), name))
            needed = {each for name in here for each in self._needs[name] if homes[each] == SHARED}
            body = "\n\n".join(self._texts[name] for name in here)
            texts[module] = _formatted(
                HEAD.format(sentence=sentence) + _imports(body, needed if module != SHARED else set()) + body
            )
        stars = "\n".join(f"from rag_wrapper_client.wire.{module} import *  # noqa: F403" for module in sorted(MODULES))
        sentence = "What the service answers, as types: dictionaries with the names of openapi.yaml."
        texts["__init__"] = _formatted(HEAD.format(sentence=sentence) + stars)
        return texts

    def _depth(self, name: str) -> int:
        if self._texts[name].startswith("class"):
            base = re.match(r"class \w+\((\w+)\)", self._texts[name])
            return 1 + self._depth(base[1]) if base and base[1] in self._texts else 0
        return 100 + sum(1 for each in self._needs[name] if not self._texts[each].startswith("class"))

    def _spelt(self, schema: Schema, title: str) -> str:
        """Return the type of a schema as it is written, and keep the types that it needs. `title` names an object
        that has no name of its own."""
        if "$ref" in schema:
            return self._named(schema["$ref"].rpartition("/")[2])
        if "allOf" in schema:
            return self._merged(schema["allOf"], title)
        for word in ("oneOf", "anyOf"):
            if word in schema and "properties" not in schema:
                objects = [part for part in schema[word] if part.get("type") != "null"]
                parts = [self._spelt(part, f"{title}{number or ''}") for number, part in enumerate(objects)]
                return _union([*parts, *["None"] * (len(objects) < len(schema[word]))])
        if "const" in schema:
            return "None" if schema["const"] is None else f"Literal[{schema['const']!r}]"
        if "enum" in schema:
            words = [word for word in schema["enum"] if word is not None]
            return _union([f"Literal[{', '.join(map(repr, words))}]", *["None"] * (None in schema["enum"])])
        kinds = schema.get("type", "object" if "properties" in schema else None)
        return _union([self._of_kind(kind, schema, title) for kind in (kinds if isinstance(kinds, list) else [kinds])])

    def _of_kind(self, kind: str | None, schema: Schema, title: str) -> str:
        if kind == "array":
            return f"list[{self._spelt(schema['items'], _singular(title)) if 'items' in schema else 'Any'}]"
        if kind == "object":
            if "properties" in schema:
                return self._object(schema, title, base="TypedDict")
            values = schema.get("additionalProperties")
            return f"dict[str, {self._spelt(values, _singular(title)) if isinstance(values, dict) else 'Any'}]"
        return SCALARS[kind] if kind else "Any"

    def _named(self, name: str) -> str:
        if name in LOOSE:
            return LOOSE[name]
        schema = self._schemas[name]
        if "properties" in schema:
            return self._object(schema, name, base="TypedDict")
        if name not in self._texts:
            spelt = self._spelt(schema, name)
            if spelt == name or spelt in {*SCALARS.values(), "list[str]", "Any"}:
                return spelt
            self._keep(name, f"{name}: TypeAlias = {spelt}\n", _names(spelt))
        return name

    def _merged(self, parts: list[Schema], title: str) -> str:
        """Return the type of what all parts say of one value: mostly one of them names a type and others say more."""
        named = [self._spelt(part, title) for part in parts if "$ref" in part or "anyOf" in part]
        more: Schema = {}
        known = {
            key
            for part in parts
            if "$ref" in part
            for key in self._schemas[part["$ref"].rpartition("/")[2]].get("properties", {})
        }
        for part in parts:
            more |= {key: each for key, each in part.get("properties", {}).items() if key not in known}
        if not named:
            return self._spelt(parts[0], title)
        if not more or "anyOf" in parts[0]:
            return named[0]
        required = [key for part in parts for key in part.get("required", []) if key in more]
        return self._object({"properties": more, "required": required}, title, base=named[0])

    def _object(self, schema: Schema, name: str, *, base: str) -> str:
        if name in self._texts:
            return name
        self._texts[name] = ""  # an object may hold others of its own kind
        required, fields, needs = schema.get("required", []), {}, set() if base == "TypedDict" else {base}
        for key, each in schema["properties"].items():
            spelt = self._spelt(each, name + _pascal(key))
            needs |= _names(spelt)
            fields[key] = spelt if key in required else f"NotRequired[{spelt}]"
        sentence = _sentence(schema.get("description", ""))
        if all(key.isidentifier() for key in fields):
            lines = [f"    {key}: {spelt}" for key, spelt in fields.items()]
            text = f"class {name}({base}):\n{sentence}" + "\n".join(lines) + "\n"
        else:
            items = ", ".join(f"{key!r}: {spelt!r}" for key, spelt in fields.items())
            text = f"{name} = TypedDict({name!r}, {{{items}}})\n"
        self._keep(name, text, needs)
        return name

    def _keep(self, name: str, text: str, needs: set[str]) -> None:
        self._texts[name], self._needs[name] = text, {each for each in needs if each in self._texts}


def _operations(document: Schema) -> Iterator[Schema]:
    for item in document["paths"].values():
        yield from (each for each in item.values() if isinstance(each, dict) and "operationId" in each)


def _answers(operation: Schema, document: Schema) -> Iterator[Schema]:
    for status, answer in operation["responses"].items():
        while "$ref" in answer:
            answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
        content = answer.get("content", {}).get("application/json", {})
        if status.startswith("2") and "schema" in content:
            yield content["schema"]


def _imports(body: str, shared: set[str]) -> str:
    typed = [
        word for word in ("Any", "Literal", "NotRequired", "TypeAlias", "TypedDict") if re.search(rf"\b{word}\b", body)
    ]
    lines = ["from __future__ import annotations", "", f"from typing import {', '.join(typed)}", ""]
    if shared:
        lines += [f"from rag_wrapper_client.wire.{SHARED} import {', '.join(sorted(shared))}", ""]
    return "\n".join([*lines, "", ""])


def _names(spelt: str) -> set[str]:
    return set(re.findall(r"\b[A-Z]\w+\b", re.sub(r"'[^']*'", "", spelt))) - {"Any", "Literal", "None"}


def _union(parts: list[str]) -> str:
    distinct = list(dict.fromkeys(each for part in parts for each in ([part] if "[" in part else part.split(" | "))))
    if "float" in distinct and "int" in distinct:
        distinct.remove("int")
    return " | ".join(sorted(distinct, key=lambda each: each == "None"))


def _sentence(description: str) -> str:
    sentence = re.split(r"(?<=[.:])\s", " ".join(description.split()))[0].rstrip(":.")
    if not sentence:
        return ""
    return textwrap.fill(f'"""{sentence}."""', 116, initial_indent="    ", subsequent_indent="    ") + "\n\n"


def _pascal(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"\W|_", name))


def _singular(title: str) -> str:
    if title.endswith("ies"):
        return f"{title.removesuffix('ies')}y"
    return title.removesuffix("s") if title.endswith("s") and not title.endswith("ss") else f"{title}Item"


def _formatted(text: str) -> str:
    command = [str(Path(sys.executable).with_name("ruff")), "format", "--stdin-filename", "wire.py", "-"]
    return subprocess.run(command, input=text, cwd=PROJECT, capture_output=True, text=True, check=True).stdout


def written() -> dict[Path, str]:
    """Return the text of each file."""
    document = yaml.load((PROJECT / "openapi.yaml").read_bytes(), Loader=yaml.CSafeLoader)
    return {WIRE / f"{name}.py": text for name, text in Writer(document).modules().items()}


def main() -> None:
    for path, text in written().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
