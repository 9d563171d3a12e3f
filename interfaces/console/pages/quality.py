"""Quality: what people found relevant, and how well the search finds it, measured and compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flask import Blueprint, Response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from interfaces.console.current_page import wire
from interfaces.console.wire import RefusedError, encoded
from schemas.errors import InvalidInputError

blueprint = Blueprint("quality", __name__, url_prefix="/quality")

JUDGED, MOST_COMPARED, MOST_COLLECTIONS = 200, 4, 200
FILES = {"queries": "queries.jsonl", "qrels": "qrels/test.tsv"}
"""The files of a query set, by the names of their inputs."""
LEAST_CHANGE = 1e-9
Json = dict[str, Any]


@blueprint.get("")
def overview() -> str:
    answer = wire().get("/api/judgements", limit=JUDGED, cursor=request.args.get("cursor"))
    return render_template(
        "quality.html",
        questions=_by_question(answer["judgements"]),
        names=_names(answer["judgements"]),
        next_cursor=answer["next_cursor"],
        judged=sorted({each["collection"] for each in answer["judgements"] if each["grade"]}),
        collections=wire().get("/collections", aside=True, limit=MOST_COLLECTIONS)["collections"],
        benches=wire().get("/api/bench")["benches"],
        most_compared=MOST_COMPARED,
    )


@blueprint.post("/judge")
def judge() -> AnyResponse:
    """Keep what somebody found relevant, or take it back, and return to where they were."""
    form = request.form
    if form.get("forget"):
        wire().delete(encoded("api", "judgements", form["forget"]))
    else:
        body = {name: form.get(name, "") for name in ("question", "collection", "document_id")}
        wire().post("/api/judgements", {**body, "grade": int(form.get("grade") == "1")})
    if form.get("back") == "quality":
        return redirect(url_for("quality.overview"), 303)
    shown: dict[str, Any] = {
        "q": form.get("question", ""),
        "collection": form.getlist("chosen"),
        "where": form.get("where") or None,
    }
    return redirect(url_for("ask.search", **shown, _anchor=form.get("anchor") or None), 303)


@blueprint.post("/measure")
def measure() -> AnyResponse:
    """Begin a measurement: with the files of a query set where the form has them."""
    body: Json = {"collection": request.form.get("collection", "")}
    if request.files:
        body["query_set"] = {name: _text_of(name) for name in FILES}
    begun = wire().post("/api/bench", body, aside=True)
    return redirect(url_for("quality.measured", bench=begun["id"]), 303)


@blueprint.get("/measured")
def measured() -> str:
    """Show measurements: one with its runs beside each other, or several with the same run of each."""
    benches = [wire().get(encoded("api", "bench", each)) for each in request.args.getlist("bench")[:MOST_COMPARED]]
    # In the order of time: what is compared is the latest with the first.
    benches.sort(key=lambda each: str(each["created_at"]))
    run = request.args.get("run", "fused")
    return render_template(
        "measured.html",
        benches=benches,
        run=run,
        names=list(dict.fromkeys(each["name"] for bench in benches for each in bench["runs"])),
        runs=runs_of(benches, run),
        comparison=compared(benches, run),
    )


@blueprint.post("/end/<bench_id>")
def end(bench_id: str) -> AnyResponse:
    wire().delete(encoded("api", "bench", bench_id))
    return redirect(url_for("quality.overview"), 303)


@blueprint.get("/export")
def export() -> Response:
    """Return the judged questions about a collection as a query set."""
    return wire().download("/api/query-set", collection=request.args.get("collection", ""))


def _text_of(name: str) -> str:
    """Return the text of a file of a query set. Raises InvalidInputError when there is none, or it is no text."""
    sent = request.files.get(name)
    content = b"" if sent is None else sent.read()
    if not content.strip():
        raise InvalidInputError(f"Choose the file {FILES[name]}: it is missing or empty", field=name)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInputError(f"{FILES[name]}:{line}: is not UTF-8", field=name, line=line) from None


def _by_question(judgements: list[Json]) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for each in judgements:
        found.setdefault(each["question"], []).append(each)
    return found


def _names(judgements: list[Json]) -> dict[tuple[str, str], str]:
    """Return the titles, or sources, of judged documents that are still there, by collection and id."""
    ids: dict[str, list[str]] = {}
    for each in judgements:
        ids.setdefault(each["collection"], []).append(each["document_id"])
    names = {}
    for collection, wanted in ids.items():
        where = {"$and": [{"document_id": {"$in": wanted}}, {"chunk_index": 0}]}
        path = encoded("collections", collection, "documents", "search")
        try:
            found = wire().post(path, {"where": where, "limit": JUDGED}, aside=True)["documents"]
        except RefusedError:  # it may have been deleted
            continue
        for each in found:
            told = each["metadata"]
            names[collection, str(told["document_id"])] = str(told.get("title") or told.get("source") or each["id"])
    return names


def runs_of(benches: Sequence[Json], run: str) -> list[tuple[str, Json]]:
    """Return runs to compare, with their titles: those of one measurement, or of several the same of each."""
    if len(benches) == 1:
        return [(each["name"], each) for each in benches[0]["runs"]]
    return [(_moment(bench), each) for bench in benches for each in bench["runs"] if each["name"] == run]


def compared(benches: Sequence[Json], run: str) -> Json | None:
    """Return what changed by question, the largest difference first: from the first measurement to the last, or within
    one from the oracle of meaning alone to all fused. None where there is nothing to compare."""
    if len(benches) == 1:
        names = [each["name"] for each in benches[0]["runs"]]
        other = "semantic" if "semantic" in names and run != "semantic" else (names or [run])[-1]
        if run not in names or other == run:
            return None
        (before, first), (after, last) = ((each, _by_run(benches[0], each)) for each in (other, run))
    elif benches:
        (before, first), (after, last) = ((_moment(each), _by_run(each, run)) for each in (benches[0], benches[-1]))
    else:
        return None
    changes = [(question, first[question], last[question]) for question in last if question in first]
    if not changes:
        return None
    return {
        "before": before,
        "after": after,
        "changes": sorted(changes, key=lambda each: (-abs(each[2] - each[1]), each[0])),
        "better": sum(is_now - was > LEAST_CHANGE for _, was, is_now in changes),
        "worse": sum(is_now - was < -LEAST_CHANGE for _, was, is_now in changes),
    }


def _by_run(bench: Json, run: str) -> dict[str, float]:
    """Return nDCG@10 of each question in a run."""
    return {each["question"]: each["runs"][run]["ndcg_at_10"] for each in bench["questions"] if run in each["runs"]}


def _moment(bench: Json) -> str:
    return f"{bench['collection']}, {bench['created_at'][:16].replace('T', ' ')}"
