"""Asking: passages for a question, why they were found, and an answer of the chat model from them."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from interfaces.console.current_page import may, wire
from interfaces.console.facets import facets_of, narrowed
from interfaces.console.forms import filter_of, number_of
from interfaces.console.receipts import PLANS, receipts_of
from interfaces.console.wire import RefusedError, encoded, named
from interfaces.passages.shortfalls import shortfalls
from interfaces.passages.words import words_of
from schemas.errors import NotFoundError

blueprint = Blueprint("ask", __name__)

SHOWN, MOST_SHOWN = 10, 100
CHAT_UNAVAILABLE = "chat_unavailable"
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
        "can_connect": may("connect"),
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


@blueprint.route("/answer", methods=["GET", "POST"])
def answer() -> Response | str:
    """Return the chat model's answer as a whole, below what was said before, for browsers without scripts. Asking costs
    something, so a form sends the question, with the token that the search has not."""
    question = request.values.get("q", "").strip()
    chosen = [each for each in request.values.getlist("collection") if each]
    if not question:
        return redirect(url_for("ask.search"), 303)
    where, conversation = filter_of(request.values.get("where", "")), request.values.get("conversation", "")
    page: Json = {
        "question": question,
        "chosen": chosen,
        "where": where,
        "conversation": conversation,
        "earlier": _messages(conversation),
        "can_connect": may("connect"),
    }
    if request.method != "POST":
        return render_template("answer.html", **page)
    body = named(
        (
            ("message", question),
            ("useRag", True),
            ("collections", chosen),
            ("where", where),
            ("conversationId", conversation),
        )
    )
    try:
        turn = wire().post("/api/chat", body)
    except RefusedError as error:
        if error.code != CHAT_UNAVAILABLE:
            raise
        return make_response(render_template("answer.html", **page, refusal=error.message), error.status)
    page["conversation"] = turn["data"]["conversationId"]
    cited = {each["number"]: each["id"] for each in turn.get("citations", ()) if each["valid"]}
    return render_template("answer.html", **page, turn=turn, words=words_of(question), cited=cited)


def _messages(conversation: str) -> list[Json]:
    """Return what was said in a conversation, nothing of one that is no more."""
    try:
        found: list[Json] = wire().get(encoded("api", "chat", conversation), aside=True)["messages"]
    except (NotFoundError, RefusedError):
        return []
    return found


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
