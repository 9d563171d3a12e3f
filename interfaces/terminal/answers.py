"""Answers on the screen: passages with the words of the question in them, how they were found, and what the chat model
says with its sources by number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.style import Style
from rich.text import Text

from interfaces.passages.places import heading_of, percentage, place_of, source_of
from interfaces.passages.words import MOST_CHARACTERS, excerpt_around
from interfaces.terminal.screen import FAINT, Screen, harmless, in_one_line, linked
from schemas.contracts.chat import PLACES, STOP
from schemas.words.comparing import AskedWords

if TYPE_CHECKING:
    from providers.outbound.json_client import JsonClient

MARK = Style(bold=True, color="yellow")
WRONG = Style(color="red", bold=True)
MOST = 100

Json = Mapping[str, Any]


def headline(source: str, metadata: Json, relevance: float | None, *, number: int | None = None) -> Text:
    """Return the line above a passage."""
    line = Text("" if number is None else f"[{number}] ")
    line.append_text(linked(in_one_line(place_of(source, metadata)), source))
    for said in (in_one_line(heading_of(metadata)), percentage(relevance)):
        if said:
            line.append(f"  {said}", FAINT)
    return line


def show_hit(
    screen: Screen,
    hit: Json,
    words: AskedWords,
    groups: Iterable[Json] = (),
    *,
    full: bool = False,
    number: int | None = None,
) -> None:
    """Show a hit of a search between its neighbours of a group, which have a line at their left."""
    before, after = _neighbours(hit, groups)
    screen.show(headline(source_of(hit), hit["metadata"], hit.get("relevance"), number=number))
    _show_neighbours(screen, hit, before)
    content = harmless(hit["content"]).strip()
    shown = Text(content if full else excerpt_around(content, words))
    for start, end in words.places_in(shown.plain[:MOST_CHARACTERS]):
        shown.stylize(MARK, start, end)
    screen.show(shown, indent="    ")
    _show_neighbours(screen, hit, after)


def _neighbours(hit: Json, groups: Iterable[Json]) -> tuple[Sequence[Json], Sequence[Json]]:
    """Return the passages before and after a hit in its group."""
    for group in groups:
        ids = [each["id"] for each in group["documents"]]
        if group["collection"] == hit["collection"] and hit["chunk_id"] in ids:
            shown = [ids.index(each) for each in hit.get("chunk_ids", [hit["chunk_id"]]) if each in ids]
            return group["documents"][: min(shown)], group["documents"][max(shown) + 1 :]
    return (), ()


def _show_neighbours(screen: Screen, hit: Json, neighbours: Sequence[Json]) -> None:
    for each in neighbours:
        place = place_of(source_of(hit), each["metadata"])
        screen.show(Text(f"{in_one_line(place)}\n{harmless(each['text']).strip()}", FAINT), indent="  | ")


def candidates(service: JsonClient, body: Json) -> Sequence[Json]:
    """Return what a question might have found without the bounds that cut it, so that what was cut can be named."""
    again = {name: value for name, value in body.items() if name not in ("gather", "explain")}
    results: Sequence[Json] = service.post("/api/search", {**again, "limit": MOST, "min_relevance": 0})["results"]
    return results


def found_by(hit: Json, rank: int) -> Iterator[str]:
    """Yield who found a hit at which rank with which score."""
    places = [f"{name} #{place['rank']} ({place['score']:.3f})" for name, place in hit["provenance"].items()]
    yield f"found by {', '.join(places)}"
    yield f"#{rank} with score {hit['score']:.3f}, rrf {hit['rrf_score']:.4f}"


def about_the_search(answer: Json, known: Sequence[Json]) -> Iterator[str]:
    """Yield what was cut and why, and how the answer came about: its fusion, oracles and collections."""
    receipt = answer["receipt"]
    names = {_identity(each): place_of(source_of(each), each["metadata"]) for each in known}
    for cut in answer["explanations"]:
        yield f"{names.get(_identity(cut), cut['doc_id'])}: {cut['reason']}"
    compared = receipt.get("compared_by")
    yield f"fusion: {receipt['fusion']}{f', candidates compared by {compared}' if compared else ''}"
    for name, oracle in receipt["oracles"].items():
        is_ok = oracle["status"] == "ok"
        found = f"{oracle['count']} found" if is_ok else f"{oracle['status']}{_because(oracle.get('error'))}"
        yield f"{name}: {found}"
        for collection, reason in oracle.get("left_out", {}).items():
            yield f"{name}: {collection} was left out{_because(reason)}"
    for collection, each in receipt["collections"].items():
        yield f"collection {collection}: {each['status'].replace('_', ' ')}{_because(each.get('reason'))}"


def _identity(found: Json) -> tuple[str | None, str]:
    return found["collection"], found["doc_id"]


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


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
    """Return the answer of `/api/chat` as `{answer, finish_reason, sources, relevance}`. A source that the answer cites
    is `cited`."""
    cited = {each["number"] for each in turn["citations"] if each["valid"]}
    sources = [
        _source(number, each, each, each["source"], each["documentId"], each["text"], is_cited=number in cited)
        for number, each in enumerate(turn["ragSources"], start=1)
    ]
    said = {"answer": turn["data"]["message"], "finish_reason": turn.get("finishReason", STOP)}
    return {**said, "sources": sources, "relevance": turn["relevance"]}


def answer_of_passages(answer: Json) -> dict[str, Any]:
    """Return the answer of `/api/search` in the same shape, `answer` None."""
    sources = [
        _source(number, hit, hit["metadata"], source_of(hit), hit["doc_id"], hit["content"], is_cited=False)
        for number, hit in enumerate(answer["results"], start=1)
    ]
    told = [each["relevance"] for each in sources if each["relevance"] is not None]
    return {"answer": None, "finish_reason": None, "sources": sources, "relevance": max(told, default=None)}


def _source(
    number: int, found: Json, metadata: Json, source: str, document_id: str, text: str, *, is_cited: bool
) -> dict[str, Any]:
    return {
        "number": number,
        "cited": is_cited,
        "source": source,
        "title": metadata.get("title"),
        **{name: metadata[name] for name in PLACES if name in metadata},
        "relevance": found["relevance"],
        "collection": found["collection"],
        "document_id": document_id,
        "text": text,
    }
