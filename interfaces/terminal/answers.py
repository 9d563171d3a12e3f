"""Answers of the chat model on the screen and as JSON: their sources by number, and citations that name none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.style import Style
from rich.text import Text

from interfaces.passages.places import source_of
from interfaces.terminal.passages import headline
from interfaces.terminal.screen import Screen
from schemas.contracts.chat import PLACES

WRONG = Style(color="red", bold=True)

Json = Mapping[str, Any]


def show_sources(screen: Screen, turn: Json) -> None:
    """Show the sources of an answer, one a line, and the citations for which there is none."""
    sources = answer_of(turn)["sources"]
    if sources:
        screen.show()
    for each in sources:
        screen.show(headline(each["source"], each, each["relevance"], number=each["number"]))
    for number in sorted({each["number"] for each in turn["citations"] if not each["valid"]}):
        screen.show(Text(f"[{number}] cites nothing: there is no source of this number", WRONG))


def answer_of(turn: Json) -> dict[str, Any]:
    """Return the answer of `/api/chat` as `{answer, sources, relevance}`. A source that the answer cites is `cited`."""
    cited = {each["number"] for each in turn["citations"] if each["valid"]}
    sources = [
        {
            "number": number,
            "cited": number in cited,
            "source": each["source"],
            "title": each["title"],
            **{name: each[name] for name in PLACES if name in each},
            "relevance": each["relevance"],
            "collection": each["collection"],
            "document_id": each["documentId"],
            "text": each["text"],
        }
        for number, each in enumerate(turn["ragSources"], start=1)
    ]
    return {"answer": turn["data"]["message"], "sources": sources, "relevance": turn["relevance"]}


def answer_of_passages(answer: Json) -> dict[str, Any]:
    """Return the answer of `/api/search` in the same shape, `answer` None."""
    sources = [
        {
            "number": number,
            "cited": False,
            "source": source_of(hit),
            "title": hit["metadata"].get("title"),
            **{name: hit["metadata"][name] for name in PLACES if name in hit["metadata"]},
            "relevance": hit["relevance"],
            "collection": hit["collection"],
            "document_id": hit["doc_id"],
            "text": hit["content"],
        }
        for number, hit in enumerate(answer["results"], start=1)
    ]
    told = [each["relevance"] for each in sources if each["relevance"] is not None]
    return {"answer": None, "sources": sources, "relevance": max(told, default=None)}
