"""Asking: passages for a question, why they were found, and an answer of the chat model from them."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from interfaces.console.current_page import may, wire
from interfaces.console.facets import facets_of, narrowed
from interfaces.console.forms import filter_of, number_of
from interfaces.console.receipts import PLANS, receipts_of
from interfaces.console.wire import named
from interfaces.passages.shortfalls import shortfalls
from interfaces.passages.words import words_of

blueprint = Blueprint("ask", __name__)

SHOWN, MOST_SHOWN = 10, 100
MOST_JUDGED = 1_000
AROUND = {"by": "section_id", "order_by": ["chunk_index"], "before": 2, "after": 2}
"""The window of passages around each hit."""
Json = dict[str, Any]


@blueprint.get("/")
def home() -> Response:
    return redirect(url_for("ask.search"), 303)


@blueprint.get("/ask")
def search() -> str:
    question = request.args.get("q", "").strip()
    chosen = [each for each in request.args.getlist("collection") if each]
    where = filter_of(request.args.get("where", ""))
    for condition in request.args.getlist("only"):
        where = narrowed(where, condition)
    explains = "why" in request.args
    collections = wire().get("/collections", aside=True, limit=200)["collections"]
    page: Json = {
        "question": question,
        "chosen": chosen,
        "where": where,
        "collections": collections,
        "explains": explains,
        "can_chat": may("chat"),
        "words": words_of(question),
    }
    if not question:
        return render_template("ask.html", **page)
    body = named(
        (
            ("query", question),
            ("limit", number_of(request.args.get("limit", ""), SHOWN, most=MOST_SHOWN)),
            ("collections", chosen),
            ("where", where),
            ("gather", AROUND),
            ("explain", explains or None),
        )
    )
    answer = wire().post("/api/search", body)
    nearest: list[Json] = []
    if not answer["results"] and answer["receipt"].get("below_min_relevance"):
        nearest = wire().post("/api/search", {**body, "min_relevance": 0, "limit": 3})["results"]
    asked = [name for name, each in answer["receipt"]["collections"].items() if each["status"] == "asked"]
    return render_template(
        "ask.html",
        **page,
        answer=answer,
        nearest=nearest,
        shortfalls=shortfalls(answer["receipt"]),
        around=_around(answer),
        receipts=receipts_of(wire(), answer, body) if explains else {},
        plans=PLANS,
        # Counting takes as long as the search, and the reasons want the room.
        facets=[] if explains else facets_of(wire(), asked, where),
        judged=_judged(question),
    )


@blueprint.post("/answer")
def answer() -> Response | str:
    """Return the chat model's answer as a whole, for browsers without scripts."""
    question = request.form.get("q", "").strip()
    chosen = [each for each in request.form.getlist("collection") if each]
    if not question:
        return redirect(url_for("ask.search"), 303)
    turn = wire().post("/api/chat", named((("message", question), ("useRag", True), ("collections", chosen))))
    cited = {each["number"]: each["id"] for each in turn.get("citations", ()) if each["valid"]}
    return render_template(
        "answer.html", question=question, chosen=chosen, turn=turn, words=words_of(question), cited=cited
    )


def _judged(question: str) -> dict[tuple[str, str], Json]:
    """Return the judgements on documents for this question, by collection and id, the latest of each."""
    latest = wire().get("/api/judgements", aside=True, question=question, limit=MOST_JUDGED)["judgements"]
    return {(each["collection"], each["document_id"]): each for each in reversed(latest)}


def _around(answer: Json) -> dict[tuple[str, str], Json]:
    """Return the group around each hit, by its collection and id."""
    found = {}
    for group in answer.get("groups", ()):
        for each in group["documents"]:
            if each["hit"]:
                found[group["collection"], each["id"]] = group
    return found
