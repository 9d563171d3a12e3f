"""Recognises text in pictures by Tesseract.

Tesseract starts no threads here: the wheel is built without OpenMP. Its models are loaded in the process that forks,
which sees no picture; the fork that does has what it needs, and opens nothing.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain, pairwise
from pathlib import PurePath
from statistics import median
from typing import NamedTuple

from PIL import Image
from tesserocr import RIL, PyTessBaseAPI, iterate_level

from retrieval.parsing.parsed import UNSUPPORTED_KIND, Parsed, UnreadableError, escaped
from retrieval.parsing.scans.picture import Picture

PICTURES = {"pdf": "pdf.pdf_pictures", "image": "scans.image_files"}
"""The modules whose `picture` makes pictures of the pages of files of a kind."""
LEAST_CONFIDENCE = 55
"""That of a paragraph, in percent. Photographs make rubbish of 0 to 47, and poor scans of which every fifth letter is
wrong have 55 to 65."""
_UPRIGHT_CONFIDENCE = 80
"""That of a page which is surely not upside down: such pages have 6 to 66. Tesseract sees itself where text runs up or
down the page."""
_FEWEST_LETTERS = 2
_GAP, _SHIFT = 1.4, 4.0  # of a line from the one before, down and aside, in the gap of most, that end a paragraph
_CJK = "\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff60\uff66-\uff9d"
_BETWEEN_CJK = re.compile(f"(?<=[{_CJK}]) +(?=[{_CJK}\u3001\u3002])|(?<=[\u3001\u3002]) +(?=[{_CJK}])")
_WITHIN_CJK_SENTENCE = re.compile(f"(?<=[{_CJK}\u3001])\n(?=[{_CJK}])")
_DIVIDED = re.compile(r"(\w)[-\u2010]\n(\S+) ?")


def recogniser(kind: str, page: int, languages: Sequence[str]) -> Callable[[bytes], Parsed]:
    """Return what reads a page of files of a kind. `languages` are the places of their data, without the suffix.

    Raises UnreadableError (UNSUPPORTED_KIND) when the data cannot be used, and ImportError without a library.
    """
    module = importlib.import_module(f"retrieval.parsing.{PICTURES[kind]}")
    return partial(_recognised, _tesseract(tuple(languages)), module.picture, page)


@lru_cache(maxsize=1)
def _tesseract(languages: tuple[str, ...]) -> PyTessBaseAPI:
    """Load the data of languages. They may lie in several folders: to Tesseract, their names are paths below `/`."""
    names = [each.removeprefix("/") for each in languages]
    try:
        tesseract = PyTessBaseAPI(path="/", lang="+".join(names))
        damaged = set(names) - set(tesseract.GetLoadedLanguages())
    except RuntimeError:
        damaged = set(names)
    if damaged:
        files = ", ".join(sorted(f"{PurePath(each).name}.traineddata" for each in damaged))
        raise UnreadableError(f"the data of languages cannot be used: {files}", UNSUPPORTED_KIND)
    return tesseract


class _Line(NamedTuple):
    """A line of text, and where its feet begin: across the lines and along them, in pixels."""

    text: str
    confidence: float
    across: float
    along: float

    @property
    def letters(self) -> int:
        return sum(character.isalnum() for character in self.text)


def _recognised(
    tesseract: PyTessBaseAPI, picture_of: Callable[[bytes, int], Picture], page: int, content: bytes
) -> Parsed:
    picture = picture_of(content, page)
    paragraphs = _read(tesseract, picture)
    if paragraphs and _confidence(chain(*paragraphs)) < _UPRIGHT_CONFIDENCE:
        turned = _read(tesseract, _upside_down(picture))
        paragraphs = max(paragraphs, turned, key=lambda some: _confidence(chain(*some)))
    return Parsed(
        "\n\n".join(
            _tidied("\n".join(line.text for line in each))
            for each in paragraphs
            if _confidence(each) >= LEAST_CONFIDENCE and sum(line.letters for line in each) >= _FEWEST_LETTERS
        )
    )


def _confidence(lines: Iterable[_Line]) -> float:
    weights = [(line.letters, line.confidence) for line in lines]
    return sum(letters * confidence for letters, confidence in weights) / (sum(each for each, _ in weights) or 1)


def _upside_down(picture: Picture) -> Picture:
    size = picture.width, picture.height
    image = Image.frombytes("L", size, picture.pixels, "raw", "L", picture.stride)
    pixels = image.transpose(Image.Transpose.ROTATE_180).tobytes()
    return picture._replace(pixels=pixels, stride=picture.width)


def _read(tesseract: PyTessBaseAPI, picture: Picture) -> list[list[_Line]]:
    """Return the paragraphs of a picture."""
    tesseract.SetImageBytes(picture.pixels, picture.width, picture.height, 1, picture.stride)
    tesseract.SetSourceResolution(picture.dpi)
    tesseract.Recognize()
    return list(_paragraphs(list(_lines(tesseract))))


def _lines(tesseract: PyTessBaseAPI) -> Iterator[_Line]:
    if (found := tesseract.GetIterator()) is None:
        return
    for each in iterate_level(found, RIL.TEXTLINE):
        try:
            text = each.GetUTF8Text(RIL.TEXTLINE).strip()
            (x, y), (end_x, end_y) = each.Baseline(RIL.TEXTLINE)
        except (RuntimeError, TypeError):  # a picture, or a line, where no text was found
            continue
        across, along = (x, y) if abs(end_x - x) < abs(end_y - y) else (y, x)  # up or down the page
        yield _Line(text, each.Confidence(RIL.TEXTLINE), across, along)


def _paragraphs(lines: Sequence[_Line]) -> Iterator[list[_Line]]:
    """Yield the lines that stand below one another without a gap. Tesseract's own paragraphs end within sentences."""
    gaps = [abs(below.across - line.across) for line, below in pairwise(lines)]
    usual = median(gaps) if gaps else 0.0
    paragraph: list[_Line] = []
    for line, gap in zip(lines, [0.0, *gaps], strict=False):
        if paragraph and (gap > _GAP * usual or abs(line.along - paragraph[-1].along) > _SHIFT * usual):
            yield paragraph
            paragraph = []
        paragraph.append(line)
    if paragraph:
        yield paragraph


def _tidied(text: str) -> str:
    text = _WITHIN_CJK_SENTENCE.sub("", _BETWEEN_CJK.sub("", text))
    return escaped(_DIVIDED.sub(_joined, text))


def _joined(found: re.Match[str]) -> str:
    """Join a divided word; what follows it stays on its line."""
    return f"{found[1]}{found[2]}\n" if found[2][0].islower() else found[0]
