"""Collections: the list of them, the documents of one by page or as a map, and one document with what is near it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import orjson
from flask import Blueprint, redirect, render_template, request, url_for

from interfaces.console.current_page import may, wire
from interfaces.console.filters import FIELDS, OPERATORS, added, conditions_of, narrowed
from interfaces.console.forms import digest_of, filter_of, number_of
from interfaces.console.wire import AnyAnswer, RefusedError, encoded, named, refused
from schemas.errors import ConflictError, InvalidInputError, NotFoundError, PreconditionFailedError
from schemas.metadata import UNNAMEABLE
from wrapper.web.error_statuses import status_of

blueprint = Blueprint("collections", __name__, url_prefix="/collections")

PAGE, MOST_ON_PAGE = 25, 200
COLLECTIONS_ON_PAGE = 50
MOST_FACETS, MOST_VALUES = 5, 8
CHANGES, LATEST_FIRST = 5, "-updated_at"
"""How many of the latest changes are shown, and the order in which they come."""
NEIGHBOURS = 6
SAVES = 5
"""How often a document is stored anew that was changed, while others change its collection."""
CHANGED = (
    "The document has changed since you opened it, and nothing was saved: above is how it is now, below what you wrote"
)
SIBLINGS = {"by": "section_id", "order_by": ["chunk_index"]}
DRAWN = 1_000
"""The points of the picture that is shown without scripts."""
MOST_GROUPS = 10
STEPS = 8
"""The colours of numbers, from the lowest to the highest."""
SHAPES = (
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "M-4.4-4.4h8.8v8.8h-8.8z",
    "M0-5.6L5.4 4.2H-5.4z",
    "M0-6L5 0L0 6L-5 0z",
    "M-2-5.5h4v3.5h3.5v4h-3.5v3.5h-4v-3.5h-3.5v-4h3.5z",
)
"""Paths about ten across, around zero: circle, square, triangle, diamond, cross."""
Json = dict[str, Any]


@blueprint.get("")
def listed() -> str:
    prefix, cursor = request.args.get("prefix", ""), request.args.get("cursor")
    more = "index" if may("manage") else None
    answer = wire().get("/collections", prefix=prefix, limit=COLLECTIONS_ON_PAGE, cursor=cursor, include=more)
    return render_template("collections.html", prefix=prefix, **answer)


@blueprint.get("/<name>")
def documents(name: str) -> str:
    where = narrowed(filter_of(request.args.get("where", "")), request.args.getlist("only"))
    where = added(where, request.args.get("field", ""), request.args.get("op", "$eq"), request.args.get("value", ""))
    order_by = request.args.get("order_by", "").strip()
    limit = number_of(request.args.get("limit", ""), PAGE, most=MOST_ON_PAGE)
    collection = _collection(name)
    body = named(where=where, order_by=order_by, limit=limit, cursor=request.args.get("cursor"))
    path = encoded("collections", name, "documents")
    answer = wire().get(path, **body) if where is None else wire().post(f"{path}/search", body)
    fields = _fields_of(answer["documents"])
    wanted = [field.strip() for field in request.args.getlist("facet") if field.strip()]
    shown = wanted or _facets_among(fields, answer["documents"])
    facets = {}
    if shown and answer["documents"]:
        path = encoded("collections", name, "facets")
        told = wire().get(path, fields=",".join(shown), where=where, limit=MOST_VALUES)["facets"]
        facets = {field: each for field, each in told.items() if field in wanted or each["distinct"] > 1}
    is_whole = where is None and not order_by and "cursor" not in request.args
    return render_template(
        "collection.html",
        collection=collection,
        changes=_latest_changes(name) if is_whole else [],
        latest_first=LATEST_FIRST,
        index=collection.get("index"),
        where=where,
        conditions=conditions_of(where),
        operators=OPERATORS,
        order_by=order_by,
        limit=limit,
        fields=fields,
        facets=facets,
        **answer,
    )


@blueprint.get("/<name>/map")
def map_of(name: str) -> str:
    where = filter_of(request.args.get("where", ""))
    collection = wire().get(encoded("collections", name), aside=True)
    some = wire().get(encoded("collections", name, "documents"), aside=True, limit=PAGE, where=where)["documents"]
    fields = _fields_of(some)
    field = request.args.get("field") if "field" in request.args else _telling(name, fields, where)
    projection = wire().get(encoded("collections", name, "projection"), field=field, where=where)
    return render_template(
        "map.html",
        collection=collection,
        projection=projection,
        map=drawn(projection),
        shapes=SHAPES,
        fields=fields if not field or field in fields else [*fields, field],
        field=field,
        has_lists=any(isinstance(each["metadata"].get(field), list) for each in some),
        where=where,
        label=f"{name} as points, coloured by {field}" if field else f"{name} as points",
    )


@blueprint.route("/<name>/document", methods=["GET", "POST"])
def document(name: str) -> AnyAnswer:
    """Show a document, after changing its text or metadata, or deleting it."""
    document_id = request.args.get("id", "")
    refusal, status = "", 200
    if request.method == "POST":
        if request.form.get("do") == "delete":
            wire().delete(encoded("collections", name, "documents"), {"ids": [document_id]})
            return redirect(url_for("collections.documents", name=name), 303)
        try:
            _save(name, document_id)
            return redirect(url_for("collections.document", name=name, id=document_id), 303)
        except (ConflictError, InvalidInputError, RefusedError) as error:
            refusal, status = refused(error)
    collection = wire().get(encoded("collections", name), aside=True)
    found, _ = _document(name, document_id)
    vector = found.pop("embedding", None)
    neighbours: list[Json] = []
    if vector:
        body = {"query_embedding": vector, "top_k": NEIGHBOURS + 1}
        # Aside: it would show hundreds of numbers.
        near = wire().post(encoded("collections", name, "query"), body, aside=True)["results"]
        neighbours = [each for each in near if each["id"] != document_id][:NEIGHBOURS]
    groups: list[Json] = []
    if "section_id" in found["metadata"]:
        groups = wire().post(encoded("collections", name, "gather"), {"ids": [document_id], **SIBLINGS})["groups"]
    page = render_template(
        "document.html",
        collection=collection,
        document=found,
        seen=_seen(found),
        refusal=refusal,
        said=request.form if refusal else None,
        vector=vector,
        neighbours=neighbours,
        group=groups[0] if groups else None,
    )
    return page, status


def _save(name: str, document_id: str) -> None:
    """Store what was filled in, with what the form does not show as it is. Raises ConflictError when the document is
    not any more as it was shown, and InvalidInputError and RefusedError for what is not taken."""
    said = {
        "text": request.form.get("text", "").replace("\r\n", "\n"),
        "metadata": filter_of(request.form.get("metadata", ""), field="metadata") or {},
    }
    for _ in range(SAVES):
        before, etag = _document(name, document_id)
        if request.form.get("seen") != _seen(before):
            raise ConflictError(CHANGED)
        try:
            wire().answer("POST", encoded("collections", name, "documents"), {"documents": [before | said]}, etag=etag)
            return
        except RefusedError as error:  # something of the collection has changed, which need not be this document
            if error.status != status_of(PreconditionFailedError):
                raise
    raise ConflictError("The collection changes all the time, and nothing was saved: save again")


@blueprint.route("/<name>/delete", methods=["GET", "POST"])
def delete(name: str) -> AnyAnswer:
    """Delete what a filter matches, after showing what that is."""
    where = filter_of(request.values.get("where", ""))
    if where is None:
        raise InvalidInputError("Without a filter this would delete every document", field="where")
    path = encoded("collections", name, "documents")
    etag = request.form.get("etag", "")
    if not (etag.isascii() and etag.isprintable()):
        raise InvalidInputError("etag must be what the page before has given", field="etag")
    if request.method == "POST":
        try:
            count = wire().answer("DELETE", path, {"where": where}, etag=etag)[0]["count"]
            return redirect(url_for("collections.documents", name=name, deleted=count), 303)
        except RefusedError as error:
            if error.status != status_of(PreconditionFailedError):
                raise
    answer, etag = wire().answer("GET", path, query={"where": where, "limit": 5})
    return render_template("delete.html", name=name, where=where, etag=etag, **answer)


def _document(name: str, document_id: str) -> tuple[Json, str]:
    """Return a document with its vector, and the ETag of the collection."""
    body = {"ids": [document_id], "include": ["embedding"]}
    answer, etag = wire().answer("POST", encoded("collections", name, "documents", "search"), body)
    if not answer["documents"]:
        raise NotFoundError(f"The collection '{name}' has no document '{document_id}'")
    return answer["documents"][0], etag


def _seen(document: Json) -> str:
    return digest_of([document["text"], document["metadata"]])


def _collection(name: str) -> Json:
    """Return a collection, with what is known of its index for those who manage it."""
    if may("manage"):
        # The name itself comes first among those that begin with it.
        listed = wire().get("/collections", aside=True, prefix=name, limit=1, include="index")["collections"]
        if listed and listed[0]["name"] == name:
            return cast(Json, listed[0])
    return wire().get(encoded("collections", name), aside=True)


def _latest_changes(name: str) -> list[Json]:
    """Return the documents that were changed last. The first passage of each says when, as a text."""
    path = encoded("collections", name, "documents")
    answer = wire().get(path, where={"updated_at": {"$gt": ""}}, order_by=LATEST_FIRST, limit=CHANGES)
    return cast(list[Json], answer["documents"])


def _facets_among(fields: list[str], documents: list[Json]) -> list[str]:
    """Return the first fields to count the values of, those first that tell documents apart. A field that each document
    has another value of is none: names of documents would be counted at length, and tell nothing."""
    distinct: dict[str, int] = {}
    for field in fields:
        held = [_elements(each["metadata"][field]) for each in documents if field in each["metadata"]]
        values = set().union(*held)
        if len(held) == 1 or len(values) < sum(map(len, held)):
            distinct[field] = len(values)
    return sorted(distinct, key=lambda field: distinct[field] == 1)[:MOST_FACETS]


def _elements(value: Any) -> set[bytes]:
    """Return the values that facets count for a document with this one: those in a list are counted each."""
    return {orjson.dumps(each) for each in (value if isinstance(value, list) else [value])}


def _telling(name: str, fields: list[str], where: Json | None) -> str:
    """Return the first of the usual fields that tells documents apart, an empty string when none does."""
    usual = [each for each in FIELDS if each in fields]
    if not usual:
        return ""
    path = encoded("collections", name, "facets")
    facets = wire().get(path, aside=True, fields=",".join(usual), where=where, limit=1)["facets"]
    return next((each for each in usual if facets[each]["distinct"] > 1), "")


def _fields_of(documents: list[Json]) -> list[str]:
    """Return the fields of these documents that can be counted, the most frequent first."""
    counts = Counter(
        field
        for each in documents
        for field, value in each["metadata"].items()
        # No query string names a field with spaces around it, and no filter one that begins like an operator.
        if field and field == field.strip() and "," not in field and not field.startswith(UNNAMEABLE)
        if isinstance(value, str | int | float | bool | list)
    )
    return [field for field, _ in counts.most_common()]


def drawn(projection: Json) -> Json:
    """Return the map of an answer of the route of projections: groups of points that look alike, each with the class of
    the style sheet that colours it, and the value that its points share, if any; the place of each point's group among
    them, a hexadecimal digit; and some of the points to draw: x, y, and the place of their group."""
    points, scale = projection["points"], projection.get("scale")
    values: Sequence[Any] = points.get("value", [None] * len(points["ids"]))
    groups: list[dict[str, Any]] = []
    if scale == "categories":
        for place, value in enumerate(each["value"] for each in projection["categories"][:MOST_GROUPS]):
            looks = {"colour": f"value-{place}", "shape": place % len(SHAPES)}
            groups.append({"title": _spelled(value), **looks, "value": value})
        places = [each if each is not None and 0 <= each < len(groups) else -1 for each in values]
    elif scale == "numbers":
        bounds, titles = _steps([value for value in values if value is not None])
        last = max(1, len(titles) - 1)
        groups = [{"title": title, "colour": f"step-{n * (STEPS - 1) // last}"} for n, title in enumerate(titles)]
        places = [-1 if value is None else bisect_right(bounds, value) - 1 for value in values]
    else:
        places = [-1] * len(values)
    others, without = len(groups), len(groups) + 1
    everything = {"title": "all documents", "colour": "value-0"}
    groups.append({"title": "other values", "colour": "value-others"} if scale else everything)
    groups.append({"title": f"without {projection.get('field')}", "colour": "value-none"})
    of_points = [
        without if scale and value is None else others if place < 0 else place
        for value, place in zip(values, places, strict=True)
    ]
    counts = Counter(of_points)
    step = max(1, len(of_points) / DRAWN)
    chosen = sorted({int(number * step) for number in range(min(DRAWN, len(of_points)))})
    return {
        "groups": [{"shape": 0, "value": None, **each, "count": counts[place]} for place, each in enumerate(groups)],
        "digits": "".join(f"{place:x}" for place in of_points),
        "points": [(points["x"][row], points["y"][row], of_points[row]) for row in chosen],
    }


def _steps(numbers: list[float]) -> tuple[list[float], list[str]]:
    """Return the lowest number and the title of each group: one for each number where they are few."""
    distinct = sorted(set(numbers))
    if len(distinct) <= STEPS:
        return distinct, [_spelled(each) for each in distinct]
    lowest, highest = distinct[0], distinct[-1]
    bounds = [lowest + (highest - lowest) * step / STEPS for step in range(STEPS)]
    ends = [*bounds[1:], highest]
    return bounds, [f"{_spelled(start)} – {_spelled(end)}" for start, end in zip(bounds, ends, strict=True)]


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:.6g}"
