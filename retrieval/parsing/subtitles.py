"""Subtitles (SubRip and WebVTT): what is said, in paragraphs, and by whom where that is told."""

from __future__ import annotations

import html
import re

from retrieval.parsing.parsed import Parsed, UnreadableError, collapsed
from retrieval.parsing.text_encodings import decoded

_TIMES = re.compile(r"(?:\d{1,3}:)?\d{1,2}:\d{1,2}[.,]\d{1,3}[ \t]{0,3}-->")
_SPEAKER = re.compile(r"<v(?:\.[^\s<>]*)?[ \t]+([^<>]*)>")
_TAGS = re.compile(r"</?[A-Za-z0-9][^<>]*>|\{\\[^{}]*\}")
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'»”’)\]]*\Z")
_LONG_ENOUGH = 300
"""Characters of a paragraph that ends with the next sentence."""


def parse(content: bytes) -> Parsed:
    """Return the text of the cues. A paragraph ends with a sentence once it is long, and where another speaks; a line
    that a cue repeats from the one before, as captions do that roll, is there once."""
    paragraphs: list[str] = []
    speaker = last = ""
    is_long = has_times = is_said = False
    for line in decoded(content).splitlines():
        if not line.strip():
            is_said = False
        elif _TIMES.match(line.strip()):
            is_said = has_times = True
        elif is_said:
            named = _SPEAKER.search(line)
            said = collapsed(html.unescape(_TAGS.sub("", _SPEAKER.sub("", line))))
            if not said or said == last:
                continue
            last = said
            if named and named[1].strip() != speaker:
                speaker = collapsed(html.unescape(named[1]))
                paragraphs.append(f"{speaker}: {said}")
            elif is_long or not paragraphs:
                paragraphs.append(said)
            else:
                paragraphs[-1] += f" {said}"
            is_long = len(paragraphs[-1]) >= _LONG_ENOUGH and _SENTENCE_END.search(said) is not None
    if not has_times:
        raise UnreadableError("is no subtitles: it has no times")
    return Parsed("\n\n".join(paragraphs) + "\n")
