"""Passages on the screen: the words of the question in them, and the part that is about these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.style import Style
from rich.text import Text

from interfaces.source_places import heading_of, percentage, place_of, source_of
from interfaces.terminal.screen import FAINT, Screen, harmless, in_one_line, linked
from schemas.words.stop_words import stop_words_of

EXCERPT_CHARACTERS = 600
"""The most characters of a passage that are shown, unless all are wanted."""
STEM_LETTERS = 5
"""The letters by which a word of a text is one of the question's, whatever its ending."""
MARK = Style(bold=True, color="yellow")

_WORD = re.compile(r"\w+")
# Chinese, Japanese, Thai and others write without spaces; two characters are as telling as a word.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2,}")
_NOTHING = re.compile(r"(?!)")

Json = dict[str, Any]


def words_of(question: str) -> re.Pattern[str]:
    """Return what finds the question's words in texts, in any case and with other endings."""
    wanted = []
    words = list(dict.fromkeys(_WORD.findall(question.casefold())))
    is_stop_word = stop_words_of(words)
    for word in words:
        unspaced = "".join(_UNSPACED.findall(word))
        if unspaced:
            wanted += [re.escape(unspaced[place : place + 2]) for place in range(len(unspaced) - 1)]
        elif not is_stop_word(word):
            stem = re.escape(word[:STEM_LETTERS])
            wanted.append(rf"\b{stem}\w*" if len(word) >= STEM_LETTERS else rf"\b{stem}s?\b")
    return re.compile("|".join(wanted), re.IGNORECASE) if wanted else _NOTHING


def marked(text: str, words: re.Pattern[str]) -> Text:
    """Return a text with these words emphasized."""
    shown = Text(text)
    for found in words.finditer(text):
        shown.stylize(MARK, *found.span())
    return shown


def excerpt_around(text: str, words: re.Pattern[str], characters: int = EXCERPT_CHARACTERS) -> str:
    """Return the part of a text that has the most different words, cut between words; an ellipsis says where."""
    if len(text) <= characters:
        return text
    found = [(each.start(), each.group().casefold()[:STEM_LETTERS]) for each in words.finditer(text)]
    reach = characters * 3 // 4

    def different(start: int) -> int:
        return len({word for place, word in found if start <= place < start + reach})

    best = max((place for place, _ in found), key=different, default=0)
    start = max(min(best - characters // 8, len(text) - characters), 0)
    end = min(start + characters, len(text))
    if start:
        start = _after_a_break(text, start, best)
    if end < len(text):
        end = _before_a_break(text, end, start)
    return f"{'… ' if start else ''}{text[start:end].strip()}{' …' if end < len(text) else ''}"


def _after_a_break(text: str, start: int, before: int) -> int:
    line_feed = text.find("\n", start - 1, before)
    space = text.find(" ", start - 1, before)
    return next((each + 1 for each in (line_feed, space) if each >= 0), start)


def _before_a_break(text: str, end: int, after: int) -> int:
    space = max(text.rfind(" ", after, end + 1), text.rfind("\n", after, end + 1))
    return space if space > after else end


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
            place = ids.index(hit["chunk_id"])
            return group["documents"][:place], group["documents"][place + 1 :]
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
