"""Forms of connections, made from what the service says of a provider's fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import orjson
from werkzeug.datastructures import MultiDict

from schemas.configuration import has_placeholder

Json = dict[str, Any]


def form_of(
    told: Json,
    config: Json,
    choice: str | None,
    secrets: Mapping[str, Sequence[str]],
    faults: Json,
    variables: Mapping[str, Sequence[Json]],
) -> Json:
    """Return the form of a provider's connections, filled in with a configuration and the choice made: inputs by the
    titles of their groups, those that belong to no choice and that everybody should look at (`plain`), those that most
    leave alone (`advanced`), and those of each choice; and the faults of the whole, or of fields that the form does not
    show."""
    names = {each["name"] for each in told["fields"]}
    inputs = [
        {
            **each,
            "value": _shown(each, config),
            # Of a secret that is set, what it refers to: "" for one that was typed.
            "stored": ", ".join(secrets[each["name"]]) if each["name"] in secrets else None,
            "hint": _hint(each),
            "errors": _messages(each["name"], faults["errors"]),
            "remarks": _messages(each["name"], faults["warnings"]),
            "variables": variables.get(each["name"], ()),
        }
        for each in told["fields"]
    ]
    chosen = choice or _fitting(told["choices"], config.keys() | secrets.keys())
    return {
        "plain": _groups([each for each in inputs if each["choice"] is None and not each["advanced"]]),
        "advanced": _groups([each for each in inputs if each["choice"] is None and each["advanced"]]),
        "is_advanced_wrong": any(each["errors"] for each in inputs if each["advanced"]),
        "choices": [
            (title, title == chosen, _groups([each for each in inputs if each["choice"] == title]))
            for title in (each["title"] for each in told["choices"])
        ],
        "general_errors": [each["message"] for each in faults["errors"] if _name_at(each["pointer"]) not in names],
    }


def said_in(form: MultiDict[str, str], told: Json) -> Json:
    """Return the configuration that somebody has filled in. An empty input leaves its field out, a text that is no
    number stays a text: the service says what is wrong with it. Fields of a choice that was not made are left out."""
    chosen = form.get("choice")
    config: Json = {}
    for each in told["fields"]:
        name = each["name"]
        if each["choice"] is not None and chosen is not None and each["choice"] != chosen:
            continue
        text = form.get(f"config.{name}", "")
        if each["secret"]:
            text = text or form.get(f"variable.{name}", "")
            if not text and form.get(f"remove.{name}"):
                config[name] = ""
        else:
            text = text.strip()
        if text:
            config[name] = text if each["secret"] else _value(text, each)
    return config


def masked(config: Json, told: Json) -> Json:
    """Return a configuration as a page may show it: without the secrets that were typed."""
    hidden = {each["name"] for each in told["fields"] if each["secret"]}
    return {
        name: "…" if name in hidden and value and not has_placeholder(value) else value
        for name, value in config.items()
    }


def _shown(told: Json, config: Json) -> str:
    """Return the text in an input, never a secret."""
    value = config.get(told["name"])
    if told["secret"]:
        # What was typed is not shown again; a placeholder is no secret.
        value = value if has_placeholder(value) else None
    elif value is None and told["required"] and not config:
        value = told["default"]
    return "" if value is None else _as_text(value)


def _hint(told: Json) -> str:
    """Return what stands in an empty input: the value that then counts, or an example."""
    if told["default"] is not None:
        return _as_text(told["default"])
    example = told["placeholder"]
    return "" if example is None or told["secret"] else f"such as {_as_text(example)}"


def _fitting(choices: Sequence[Json], given: Set[str]) -> str | None:
    """Return the choice that is filled in most: a secret alone, which another choice knows too, makes none."""
    fitting = [each for each in choices if given & set(each["fields"])] or choices[:1]
    return min(fitting, key=lambda each: len(set(each["fields"]) - given))["title"] if fitting else None


def _groups(inputs: Sequence[Json]) -> dict[str, list[Json]]:
    """Return inputs by the titles of their groups, first those of none."""
    groups: dict[str, list[Json]] = {}
    for each in sorted(inputs, key=lambda each: each["group"] is not None):
        groups.setdefault(each["group"] or "", []).append(each)
    return groups


def _messages(name: str, faults: Sequence[Json]) -> list[str]:
    return [each["message"] for each in faults if _name_at(each["pointer"]) == name]


def _name_at(pointer: str) -> str:
    """Return the name of the field that a JSON Pointer leads to or into, "" for that of the whole."""
    first = pointer.removeprefix("/").partition("/")[0]
    return first.replace("~1", "/").replace("~0", "~")


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(value)
    return orjson.dumps(value).decode()


def _value(text: str, told: Json) -> Any:
    if told["type"] == "number":
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
        return found if isinstance(found, int | float) and not isinstance(found, bool) else text
    if told["type"] == "boolean":
        return {"true": True, "false": False}.get(text, text)
    if told["type"] == "list":
        return [line.strip() for line in text.splitlines() if line.strip()]
    if told["type"] == "select":
        return next((option for option in told["options"] if _as_text(option) == text), text)
    return text
