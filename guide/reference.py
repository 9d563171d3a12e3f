"""Makes the pages of the reference from openapi.yaml: one for each of its tags, and one of all schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from guide.spelling import cell, fields_table, prose, spelt_type, table

METHODS = ("get", "head", "post", "put", "patch", "delete")
SCHEMAS = "schemas.md"
Description = dict[str, Any]


def reference_pages(description: Path) -> dict[str, str]:
    """Return the pages by the names of their files, in the order of the tags; the schemas come last."""
    # The parser in C, where PyYAML has it: the description is long.
    described = yaml.load(description.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    pages = {f"{tag['name']}.md": _page_of(tag, described) for tag in described["tags"]}
    return {name: text for name, text in pages.items() if text} | {SCHEMAS: _schemas_page(described)}


def _page_of(tag: Description, described: Description) -> str:
    """Return the page of the operations whose first tag this is, empty when there is none."""
    operations = [
        (method, path, item, item[method])
        for path, item in described["paths"].items()
        for method in METHODS
        if method in item and item[method]["tags"][0] == tag["name"]
    ]
    if not operations:
        return ""
    parts = [f"# HTTP: {tag['name']}", prose(tag["description"])]
    parts += [_operation(*each, described) for each in operations]
    return "\n\n".join(parts) + "\n"


def _operation(method: str, path: str, item: Description, operation: Description, described: Description) -> str:
    parts = [f"## `{method.upper()} {path}`", prose(operation["summary"])]
    if "description" in operation:
        parts.append(prose(operation["description"]))
    parts.append(f"**Needs:** {_needs(operation)}")
    parameters = [
        _resolved(each, described) for each in (*item.get("parameters", ()), *operation.get("parameters", ()))
    ]
    if parameters:
        rows = [
            (
                f"`{each['name']}`",
                f"{each['in']}{', required' if each.get('required') else ''}",
                spelt_type(each.get("schema", {}), SCHEMAS),
                _described(each, described),
            )
            for each in parameters
        ]
        parts += ["**Parameters**", table(("Name", "Where", "Type", "Meaning"), rows)]
    if "requestBody" in operation:
        parts += _content("Body", _resolved(operation["requestBody"], described), described)
    parts += _answers(operation["responses"], described)
    return "\n\n".join(parts)


def _answers(responses: Description, described: Description) -> list[str]:
    answers = {str(status): _resolved(each, described) for status, each in sorted(responses.items(), key=_by_status)}
    rows = [(status, _types(answer), cell(answer["description"])) for status, answer in answers.items()]
    parts = ["**Answers**", table(("Status", "Body", "Meaning"), rows)]
    for status, answer in answers.items():
        if status.startswith("2"):
            parts += _content(f"Answer {status}", answer, described, introduced=True)
    return parts


def _content(title: str, holder: Description, described: Description, *, introduced: bool = False) -> list[str]:
    """Return the fields and the example of each media type."""
    parts: list[str] = []
    for media_type, content in holder.get("content", {}).items():
        schema = content.get("schema", {})
        shown = fields_table(schema, SCHEMAS)
        example = content.get("example", next((e["value"] for e in content.get("examples", {}).values()), None))
        if introduced and not shown and example is None:
            continue
        parts.append(f"**{title}** (`{media_type}`): {spelt_type(schema, SCHEMAS) or 'anything'}")
        if "description" in holder and not introduced:
            parts.append(prose(holder["description"]))
        if shown:
            parts.append(shown)
        if example is not None:
            language = "json" if "json" in media_type and not isinstance(example, str) else "text"
            text = (
                example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False, default=str)
            )
            parts.append(f"```{language}\n{text.rstrip()}\n```")
    return parts


def _types(answer: Description) -> str:
    return ", ".join(f"`{each}`" for each in answer.get("content", {})) or "none"


def _needs(operation: Description) -> str:
    """Return the scope of a key that an operation asks for."""
    security = operation.get("security")
    if not security:
        return "no key"
    scopes = next(iter(security[0].values()))
    return f"a key with the scope `{scopes[0]}`" if scopes else "any key"


def _schemas_page(described: Description) -> str:
    parts = ["# HTTP: schemas", "The shapes that the routes of this reference name."]
    for name, schema in described["components"]["schemas"].items():
        parts.append(f"## {name}")
        if "description" in schema:
            parts.append(prose(schema["description"]))
        parts.append(fields_table(schema, "") or (spelt_type(schema, "") or "Anything."))
    return "\n\n".join(parts) + "\n"


def _described(parameter: Description, described: Description) -> str:
    """Return what a parameter means, in its own words or in those of its schema."""
    schema = _resolved(parameter.get("schema", {}), described)
    return cell(parameter.get("description") or schema.get("description", ""))


def _resolved(node: Description, described: Description) -> Description:
    while "$ref" in node:
        found: Any = described
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part.replace("~1", "/").replace("~0", "~")]
        node = found
    return node


def _by_status(answer: tuple[object, object]) -> str:
    return str(answer[0])
