"""Passages on the screen: the words of the question in them, and the part that is about these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.style import Style
from rich.text import Text

from interfaces.passages.places import heading_of, percentage, place_of, source_of
from interfaces.passages.words import excerpt_around
from interfaces.terminal.screen import FAINT, Screen, harmless, in_one_line, linked

MARK = Style(bold=True, color="yellow")

Json = dict[str, Any]


def marked(text: str, words: re.Pattern[str]) -> Text:
    """Return a text with these words emphasized."""
    shown = Text(text)
    for found in words.finditer(text):
        shown.stylize(MARK, *found.span())
    return shown


def headline(source: str, metadata: Mapping[str, Any], relevance: float | None, *, number: int | None = None) -> Text:
    """Return the line above a passage."""
    line = Text("" if number is None else f"[{number}] ")
    line.append_text(linked(in_one_line(place_of(source, metadata)), source))
    for said in (in_one_line(heading_of(metadata)), percentage(relevance)):
        if said:
            line.append(f"  {said}", FAINT)
    return line


def neighbours_of(hit: Json, groups: Iterable[Json]) -> tuple[list[Json], list[Json]]:
    """Return the passages before and after a hit in its group."""
    for group in groups:
        ids = [each["id"] for each in group["documents"]]
        if group["collection"] == hit["collection"] and hit["chunk_id"] in ids:
            shown = [ids.index(each) for each in hit.get("chunk_ids", [hit["chunk_id"]]) if each in ids]
            return group["documents"][: min(shown)], group["documents"][max(shown) + 1 :]
    return [], []


def show_hit(
    screen: Screen,
    hit: Json,
    words: re.Pattern[str],
    *,
    full: bool,
    number: int | None = None,
    before: Sequence[Json] = (),
    after: Sequence[Json] = (),
) -> None:
    """Show a hit of a search between its neighbours, which have a line at their left."""
    screen.show(headline(source_of(hit), hit["metadata"], hit.get("relevance"), number=number))
    _show_neighbours(screen, hit, before)
    content = harmless(hit["content"]).strip()
    screen.show(marked(content if full else excerpt_around(content, words), words), indent="    ")
    _show_neighbours(screen, hit, after)


def _show_neighbours(screen: Screen, hit: Json, neighbours: Sequence[Json]) -> None:
    for each in neighbours:
        place = place_of(source_of(hit), each["metadata"])
        screen.show(Text(f"{in_one_line(place)}\n{harmless(each['text']).strip()}", FAINT), indent="  | ")
