"""Asking: passages for a question, why they were found, and an answer of the chat model from them."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from interfaces.console.current_page import wire
from interfaces.console.filters import facets_of, narrowed
from interfaces.console.forms import filter_of, number_of
from interfaces.console.wire import AnyAnswer, RefusedError, encoded, named
from interfaces.passages.shortfalls import shortfalls
from schemas.errors import NotFoundError
from schemas.ways import RRF, SCORES, SMOOTHED
from schemas.words.comparing import AskedWords

blueprint = Blueprint("ask", __name__)

SHOWN, MOST_SHOWN = 10, 100
CHAT_UNAVAILABLE = "chat_unavailable"
MOST_JUDGED = 1_000
AROUND = {"by": "section_id", "order_by": ["chunk_index"], "before": 2, "after": 2}
"""The window of passages around each hit."""
PLANS = {
    "memory": "every vector, from memory",
    "exact": "every vector that matches",
    "scan": "every vector that matches, without the index",
    "index": "the index, then the vectors that it names",
    "index+filter": "the index, then those of its vectors that match",
    "empty": "nothing to search",
}
"""The plans of a vector query in words."""
FUSIONS = {RRF: "fused by rank", SCORES: "fused by score", SMOOTHED: "smoothed by neighbours"}
Json = dict[str, Any]
Identity = tuple[str | None, str]


@blueprint.get("/")
def home() -> Response:
    return redirect(url_for("ask.search"), 303)


@blueprint.get("/ask")
def search() -> str:
    page = _asked()
    page["where"] = narrowed(page["where"], request.args.getlist("only"))
    question, where, explains = page["question"], page["where"], "why" in request.args
    page |= {
        "collections": wire().get("/collections", aside=True, limit=200)["collections"],
        "explains": explains,
        "words": AskedWords(question),
    }
    if not question:
        return render_template("ask.html", **page)
    body = named(
        query=question,
        limit=number_of(request.args.get("limit", ""), SHOWN, most=MOST_SHOWN),
        collections=page["chosen"],
        where=where,
        gather=AROUND,
        explain=explains or None,
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
        receipts=_receipts(answer, body) if explains else {},
        plans=PLANS,
        # Counting takes as long as the search, and the reasons want the room.
        facets=[] if explains else facets_of(wire(), asked, where),
        judged=_judged(question),
    )


@blueprint.route("/answer", methods=["GET", "POST"])
def answer() -> AnyAnswer:
    """Return the chat model's answer as a whole, below what was said before, for browsers without scripts. Asking costs
    something, so a form sends the question, with the token that the search has not."""
    page = _asked()
    question, conversation = page["question"], request.values.get("conversation", "")
    if not question:
        return redirect(url_for("ask.search"), 303)
    page |= {"conversation": conversation, "earlier": _messages(conversation)}
    if request.method != "POST":
        return render_template("answer.html", **page)
    body = named(
        message=question,
        useRag=True,
        collections=page["chosen"],
        where=page["where"],
        conversationId=conversation,
    )
    try:
        turn = wire().post("/api/chat", body)
    except RefusedError as error:
        if error.code != CHAT_UNAVAILABLE:
            raise
        return render_template("answer.html", **page, refusal=error.message), error.status
    page["conversation"] = turn["data"]["conversationId"]
    cited = {each["number"]: each["id"] for each in turn.get("citations", ()) if each["valid"]}
    return render_template("answer.html", **page, turn=turn, words=AskedWords(question), cited=cited)


def _asked() -> Json:
    """Return the question, and the collections and the filter that it is put to."""
    return {
        "question": request.values.get("q", "").strip(),
        "chosen": [each for each in request.values.getlist("collection") if each],
        "where": filter_of(request.values.get("where", "")),
    }


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
    return {
        (group["collection"], each["id"]): group
        for group in answer.get("groups", ())
        for each in group["documents"]
        if each["hit"]
    }


def _receipts(answer: Json, body: Json) -> dict[Identity, list[Json]]:
    """Return for each result the steps that led to its place: the oracles, the fusion of ranks, that of scores, and the
    answer as it is. The `share` of each is its score between the ranking's lowest, 0, and highest, 1."""
    again = {name: value for name, value in body.items() if name not in ("gather", "explain")}
    again |= {"limit": MOST_SHOWN, "min_relevance": 0}
    rankings: dict[str, dict[Identity, tuple[int, float]]] = {}
    for hit in answer["results"]:
        for oracle, place in hit["provenance"].items():
            rankings.setdefault(oracle, {})[hit["collection"], hit["doc_id"]] = place["rank"], place["score"]
    final = answer["receipt"]["fusion"]
    for fusion in (*(each for each in (RRF, SCORES) if each != final), final):
        asked = answer if fusion == final else wire().post("/api/search", {**again, "fusion": fusion})
        of_score = "rrf_score" if fusion == RRF else "score"
        rankings[FUSIONS[fusion]] = {
            (hit["collection"], hit["doc_id"]): (rank, hit[of_score])
            for rank, hit in enumerate(asked["results"], start=1)
        }
    receipts: dict[Identity, list[Json]] = {identity: [] for identity in rankings[FUSIONS[final]]}
    for name, places in rankings.items():
        highest = max((score for _, score in places.values()), default=0.0)
        for identity, steps in receipts.items():
            rank, score = places.get(identity, (None, 0.0))
            if rank is not None or name in FUSIONS.values():
                share = min(max(score / highest, 0.0), 1.0) if highest > 0 else 0.0
                steps.append({"name": name, "rank": rank, "score": score if rank else None, "share": share})
    return receipts
