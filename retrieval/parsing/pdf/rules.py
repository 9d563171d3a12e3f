"""The lines that are drawn on a page, level and upright: strokes, edges of boxes, and boxes as thin as a line."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium
from pypdfium2 import PdfMatrix

MAX_OBJECTS, MAX_SEGMENTS, MAX_RULES = 100_000, 20_000, 1_000  # of a page; what has more is a map or a drawing
NEAR = 3.0  # points within which lines are the same, or meet
_SHORTEST = 4.0
_MOST_DEPTH = 3  # of forms in forms
_PAINTED_THIN = 2.5

Point = tuple[float, float]


@dataclass(slots=True)
class Rule:
    """A line: `at` is its height, or its distance from the left of the page if it is upright, `spans` are its parts."""

    at: float
    spans: list[tuple[float, float]]

    @property
    def start(self) -> float:
        return self.spans[0][0]

    @property
    def end(self) -> float:
        return self.spans[-1][1]


@dataclass(slots=True)
class Drawn:
    """What is drawn on a page: its lines, the area of its largest picture, None without one, and the number of its
    shapes."""

    level: list[Rule] = field(default_factory=list)
    upright: list[Rule] = field(default_factory=list)
    picture: float | None = None
    shapes: int = 0


def drawn_on(page: pypdfium2.PdfPage) -> Drawn:
    """Return what is drawn on a page, without its lines if there are too many."""
    drawn = Drawn()
    level: list[tuple[float, float, float]] = []
    upright: list[tuple[float, float, float]] = []
    segments = 0
    for item, kind, matrix in _objects(page):
        drawn.shapes += kind == pdfium.FPDF_PAGEOBJ_PATH
        if kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            a, b, c, d, *_ = _matrix(item).multiply(matrix).get()
            drawn.picture = max(drawn.picture or 0.0, (abs(a) + abs(c)) * (abs(b) + abs(d)))
        if kind != pdfium.FPDF_PAGEOBJ_PATH or segments > MAX_SEGMENTS:
            continue
        segments += max(pdfium.FPDFPath_CountSegments(item), 0)
        if segments > MAX_SEGMENTS:
            continue
        for (x0, y0), (x1, y1) in _edges(item, matrix):
            if abs(y0 - y1) < 1.0:
                level.append((y0, min(x0, x1), max(x0, x1)))
            elif abs(x0 - x1) < 1.0:
                upright.append((x0, min(y0, y1), max(y0, y1)))
    rules = [_merged(each) for each in (level, upright)]
    if segments <= MAX_SEGMENTS and sum(len(rule.spans) for each in rules for rule in each) <= MAX_RULES:
        drawn.level, drawn.upright = rules
    return drawn


def _objects(page: pypdfium2.PdfPage) -> Iterator[tuple[Any, int, PdfMatrix]]:
    """Yield what is drawn on a page but texts: (object, kind, matrix), that within forms, too."""
    left = MAX_OBJECTS
    raw, get, kind_of = page.raw, pdfium.FPDFPage_GetObject, pdfium.FPDFPageObj_GetType
    count = pdfium.FPDFPage_CountObjects(raw)
    waiting: list[tuple[Any, Any, int, PdfMatrix, int]] = [(raw, get, count, PdfMatrix(), 0)]
    while waiting:
        holder, get, count, matrix, depth = waiting.pop()
        for index in range(min(count, left)):
            item = get(holder, index)
            kind = kind_of(item)
            if kind == pdfium.FPDF_PAGEOBJ_TEXT:
                continue
            if kind == pdfium.FPDF_PAGEOBJ_FORM and depth < _MOST_DEPTH:
                inner = _matrix(item).multiply(matrix)
                waiting.append(
                    (item, pdfium.FPDFFormObj_GetObject, pdfium.FPDFFormObj_CountObjects(item), inner, depth + 1)
                )
            else:
                yield item, kind, matrix
        left -= min(count, left)


def _edges(path: Any, outer: PdfMatrix) -> Iterator[tuple[Point, Point]]:
    """Yield the straight lines of a path that is painted. A thin box is one line."""
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(path, fill, stroke)
    if not fill.value and not stroke.value:
        return
    matrix = _matrix(path).multiply(outer)
    for points in _shapes(path, matrix):
        (left, right), (low, high) = ((min(each), max(each)) for each in zip(*points, strict=True))
        if right - left <= _PAINTED_THIN or high - low <= _PAINTED_THIN:
            if right - left > high - low:
                yield (left, (low + high) / 2), (right, (low + high) / 2)
            else:
                yield ((left + right) / 2, low), ((left + right) / 2, high)
            continue
        closing = [(points[-1], points[0])] if fill.value else []
        yield from [*pairwise(points), *closing]


def _shapes(path: Any, matrix: PdfMatrix) -> Iterator[list[Point]]:
    """Yield the points of each part of a path; curves end one."""
    points: list[Point] = []
    x, y = ctypes.c_float(), ctypes.c_float()
    for index in range(pdfium.FPDFPath_CountSegments(path)):
        segment = pdfium.FPDFPath_GetPathSegment(path, index)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        if kind != pdfium.FPDF_SEGMENT_LINETO and points:
            yield points
            points = []
        points.append(matrix.on_point(x.value, y.value))
        if kind == pdfium.FPDF_SEGMENT_LINETO and pdfium.FPDFPathSegment_GetClose(segment):
            points.append(points[0])
    if points:
        yield points


def _merged(lines: Iterable[tuple[float, float, float]]) -> list[Rule]:
    """Return lines as rules, ascending: what lies within a few points of each other is one."""
    near: list[list[tuple[float, float, float]]] = []
    for line in sorted(line for line in lines if line[2] - line[1] >= _SHORTEST):
        if near and line[0] - near[-1][0][0] <= NEAR:
            near[-1].append(line)
        else:
            near.append([line])
    return [Rule(sum(line[0] for line in each) / len(each), _joined([line[1:] for line in each])) for each in near]


def _joined(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    done: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if done and start - done[-1][1] <= NEAR:
            done[-1] = done[-1][0], max(done[-1][1], end)
        else:
            done.append((start, end))
    return done


def _matrix(item: Any) -> PdfMatrix:
    found = pdfium.FS_MATRIX()
    pdfium.FPDFPageObj_GetMatrix(item, found)
    return PdfMatrix.from_raw(found)
