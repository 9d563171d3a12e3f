"""What stands at the top of Markdown and is not text: the front matter, in YAML between `---` or in TOML between `+++`,
which is metadata."""

from __future__ import annotations

import re
import tomllib
from math import isfinite

import orjson
import yaml

from retrieval.parsing.parsed import Parsed, language_of, tags_of
from schemas.errors import InvalidInputError
from schemas.metadata import check_metadata

MAX_CHARACTERS = 32_768
INTEGER_BITS = 64
_YAML = re.compile(r"\A---[ \t]*\r?\n(?=[\w\"'-]+[ \t]*:)((?:.*\n)*?)(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")
_TOML = re.compile(r"\A\+\+\+[ \t]*\r?\n((?:.*\n)*?)\+\+\+[ \t]*(?:\r?\n|\Z)")


def split_front_matter(text: str) -> Parsed:
    """Take the front matter out of a Markdown text, where its lines become empty, so that no line moves.

    `tags` become a list of strings also where they are written as one string ("a, b"); `lang` and `language` become
    `language`, as a primary tag ("de"). Dates are spelt as ISO 8601 does. What cannot be read stays part of the text,
    with a warning.
    """
    start = text[:MAX_CHARACTERS]
    found = _YAML.match(start) or _TOML.match(start)
    if found is None:
        return Parsed(text)
    try:
        if start.startswith("-"):
            read = yaml.load(found[1], _YamlLoader)
        else:
            read = tomllib.loads(found[1].replace("\r\n", "\n"))
        metadata = orjson.loads(orjson.dumps(_storable(read), default=list, option=orjson.OPT_NON_STR_KEYS))
        if not isinstance(metadata, dict):
            return Parsed(text)
        check_metadata(metadata)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, InvalidInputError):
        return Parsed(text, warnings=["The front matter cannot be read: it stays part of the text"])
    title = metadata.pop("title", None)
    if "tags" in metadata:
        metadata["tags"] = tags_of(metadata["tags"])
    language = language_of(metadata.pop("lang", None)) or language_of(metadata.pop("language", None))
    if language:
        metadata["language"] = language
    return Parsed(
        text="\n" * found[0].count("\n") + text[found.end() :],
        title=" ".join(str(title).split()) or None if isinstance(title, str | int | float) else None,
        metadata={name: value for name, value in metadata.items() if value is not None},
    )


class _YamlLoader(yaml.SafeLoader):
    """Reads YAML without aliases, by which a short text can name one part a million times."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)


def _storable(read: object) -> object:
    """Return what was read with numbers that no metadata has, integers beyond 64 bits and `.nan` or `.inf`, as text."""
    if isinstance(read, dict):
        return {name: _storable(value) for name, value in read.items()}
    if isinstance(read, list):
        return [_storable(each) for each in read]
    if isinstance(read, float):
        return read if isfinite(read) else str(read)
    return str(read) if isinstance(read, int) and read.bit_length() >= INTEGER_BITS else read
