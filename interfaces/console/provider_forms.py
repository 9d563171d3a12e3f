"""Forms of connections, made from what the service says of a provider's fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from werkzeug.datastructures import MultiDict

from schemas.configuration import has_placeholder

Json = dict[str, Any]

PREFIX = "config."
"""The beginning of the names of inputs. What follows is the name of the field."""
REMOVED, VARIABLE = "remove.", "variable."
"""The beginnings of the names of inputs beside a secret: whether it is to be removed, and the variable chosen."""
CHOICE = "choice"
SPECIAL = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Input:
    """A field as the page shows it. `value` is the text in the input, never a secret. `stored` says of a secret that is
    set what it refers to, "" for one that was typed; it is None for one that is not set."""

    told: Json
    value: str = ""
    stored: str | None = None
    errors: Sequence[str] = ()
    remarks: Sequence[str] = ()
    variables: Sequence[Json] = ()

    @property
    def name(self) -> str:
        return str(self.told["name"])

    @property
    def hint(self) -> str:
        """What stands in the empty input: the value that then counts, or an example."""
        if self.told["default"] is not None:
            return as_text(self.told["default"])
        example = self.told["placeholder"]
        return "" if example is None or self.told["secret"] else f"such as {as_text(example)}"


@dataclass(frozen=True, slots=True)
class Group:
    title: str | None
    inputs: list[Input]


@dataclass(frozen=True, slots=True)
class Choice:
    title: str
    is_chosen: bool
    groups: list[Group]


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody has filled in, or what is stored: the configuration, and the choice made."""

    config: Json = field(default_factory=dict)
    choice: str | None = None


@dataclass(frozen=True)
class ProviderForm:
    """The form of a provider's connections, filled in."""

    told: Json
    said: Said
    secrets: Mapping[str, Sequence[str]]
    errors: Sequence[Json]
    remarks: Sequence[Json]
    variables: Mapping[str, Sequence[Json]]

    @property
    def plain(self) -> list[Group]:
        """The groups of fields that belong to no choice and that everybody should look at."""
        return self._groups(self._inputs(choice=None, advanced=False))

    @property
    def advanced(self) -> list[Group]:
        return self._groups(self._inputs(choice=None, advanced=True))

    @property
    def choices(self) -> list[Choice]:
        titles = [each["title"] for each in self.told["choices"]]
        return [Choice(title, title == self._chosen, self._groups(self._inputs(choice=title))) for title in titles]

    @property
    def general_errors(self) -> list[str]:
        """The faults of the whole, and of fields that the form does not show."""
        known = {each["name"] for each in self.told["fields"]}
        return [each["message"] for each in self.errors if name_at(each["pointer"]) not in known]

    @property
    def is_advanced_wrong(self) -> bool:
        return any(each.errors for group in self.advanced for each in group.inputs)

    @property
    def _chosen(self) -> str | None:
        if self.said.choice is not None or not self.told["choices"]:
            return self.said.choice
        given = self.said.config.keys() | self.secrets.keys()
        fitting = [each for each in self.told["choices"] if given & set(each["fields"])]
        # The one that is filled in most: a secret alone, which another choice knows too, makes none.
        missing = [len(set(each["fields"]) - given) for each in fitting]
        return str(fitting[missing.index(min(missing))]["title"] if fitting else self.told["choices"][0]["title"])

    def _inputs(self, *, choice: str | None, advanced: bool | None = None) -> list[Input]:
        return [
            self._input(each)
            for each in self.told["fields"]
            if each["choice"] == choice and advanced in (None, each["advanced"])
        ]

    def _input(self, told: Json) -> Input:
        name = told["name"]
        value = self.said.config.get(name)
        if told["secret"]:
            # What was typed is not shown again; a placeholder is no secret.
            value = value if has_placeholder(value) else None
        elif value is None and told["required"] and told["default"] is not None and not self.said.config:
            value = told["default"]
        refers_to = self.secrets.get(name)
        return Input(
            told,
            "" if value is None else as_text(value),
            None if refers_to is None else ", ".join(refers_to),
            said_of(name, self.errors),
            said_of(name, self.remarks),
            self.variables.get(name, ()),
        )

    @staticmethod
    def _groups(inputs: Iterable[Input]) -> list[Group]:
        groups: dict[str | None, list[Input]] = {}
        for each in inputs:
            groups.setdefault(each.told["group"], []).append(each)
        return [Group(title, groups[title]) for title in sorted(groups, key=lambda title: title is not None)]


def said_in(form: MultiDict[str, str], told: Json) -> Said:
    """Return what somebody has filled in. An empty input leaves its field out, a text that is no number stays a text:
    the service says what is wrong with it. Fields of a choice that was not made are left out."""
    chosen = form.get(CHOICE)
    config: Json = {}
    for each in told["fields"]:
        name = each["name"]
        if each["choice"] is not None and chosen is not None and each["choice"] != chosen:
            continue
        text = form.get(PREFIX + name, "")
        if each["secret"]:
            text = text or form.get(VARIABLE + name, "")
            if not text and form.get(REMOVED + name):
                config[name] = ""
        else:
            text = text.strip()
        if text:
            config[name] = text if each["secret"] else _value(text, each)
    return Said(config, chosen)


def name_at(pointer: str) -> str:
    """Return the name of the field that a JSON Pointer leads to or into, "" for that of the whole."""
    first = pointer.removeprefix("/").partition("/")[0]
    return first.replace("~1", "/").replace("~0", "~")


def said_of(name: str, faults: Sequence[Json]) -> list[str]:
    return [each["message"] for each in faults if name_at(each["pointer"]) == name]


def masked(config: Json, told: Json) -> Json:
    """Return a configuration as a page may show it: without the secrets that were typed."""
    hidden = {each["name"] for each in told["fields"] if each["secret"]}
    return {
        name: "…" if name in hidden and value and not has_placeholder(value) else value
        for name, value in config.items()
    }


def as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(value)
    return orjson.dumps(value).decode()


def _value(text: str, told: Json) -> Any:
    if told["type"] == "number":
        return _number(text)
    if told["type"] == "boolean":
        return SPECIAL.get(text, text)
    if told["type"] == "list":
        return [line.strip() for line in text.splitlines() if line.strip()]
    if told["type"] == "select":
        return next((option for option in told["options"] if as_text(option) == text), text)
    return text


def _number(text: str) -> Any:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return found if isinstance(found, int | float) and not isinstance(found, bool) else text
