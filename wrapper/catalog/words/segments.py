"""The form of a segment of the word index: the words of some documents, which never change once they are written.

A segment numbers all its words in sequence: document after document, in each the words of its fields (`FIELDS`), with
one number left out behind each field. So one number of 32 bits says in which document, in which field and at which
place a word occurs, neighbours have numbers that differ by one, and all occurrences of a word are one ascending array.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wrapper.catalog.contract import EncodedSegment

FIELDS = 4
"""The number of fields: heading, text, tags, identifiers (`wrapper/catalog/words/splitting.py`)."""
BLOCK_BYTES = 8_192
"""The size of a block before it is compressed; a word with more occurrences has a block of its own."""

Numbers = NDArray[np.uint32]
Places = NDArray[np.int64]
Mask = NDArray[np.bool_]
NOWHERE: Numbers = np.zeros(0, dtype=np.uint32)


class Block(NamedTuple):
    """Some words of a segment as they are stored.

    `terms` are in their order, with line ends between. `content` is compressed: how many occurrences each term has, and
    then the occurrences, as differences to the one before with their four bytes kept apart.
    """

    first_term: str
    terms: str
    content: bytes


@dataclass(frozen=True)
class Layout:
    """The documents of a segment (`positions`) and the lengths of their fields (`lengths`, documents by `FIELDS`)."""

    positions: Places
    lengths: Numbers

    @cached_property
    def starts(self) -> Numbers:
        """The number of the first word of each field of each document, in order."""
        flat = self.lengths.reshape(-1).astype(np.int64) + 1
        return (np.cumsum(flat) - flat).astype(np.uint32)

    @cached_property
    def words(self) -> Numbers:
        """The number of words of each document."""
        found: Numbers = self.lengths.sum(axis=1, dtype=np.uint32)
        return found


@dataclass(frozen=True)
class Segment:
    """The words of some documents.

    `terms` are in order. `counts` says how many of the `occurrences` belong to each; those of a term stand together and
    ascend.
    """

    layout: Layout
    terms: list[str]
    counts: Places
    occurrences: Numbers


def build(
    positions: Sequence[int],
    lengths: Sequence[Sequence[int]],
    words: Sequence[str],
    stems: Callable[[Sequence[str]], list[str]],
    beside: Sequence[tuple[int, str]] = (),
) -> Segment:
    """Build the segment of some documents; each word is indexed by its stem.

    The documents are given by their positions, the lengths of their fields, and all their words one after the other.
    Terms that are found besides these (`beside`, each with the number of its document) stand once in each document, on
    the number that is left out behind its last field. So they make it no longer, and are neighbours of no word.
    """
    layout = Layout(np.array(positions, dtype=np.int64), np.array(lengths, dtype=np.uint32).reshape(-1, FIELDS))
    number_of: defaultdict[str, int] = defaultdict(count().__next__)
    every = [*words, *(term for _, term in beside)] if beside else words
    in_order_met = np.fromiter(map(number_of.__getitem__, every), dtype=np.int32, count=len(every))
    stem_of = stems(list(number_of))
    terms = sorted(set(stem_of))
    rank = {term: number for number, term in enumerate(terms)}
    numbers = np.array([rank[stem] for stem in stem_of], dtype=np.int32)[in_order_met]
    flat = layout.lengths.reshape(-1)
    # The n-th word stands n places from the beginning, and one further for each field before its own.
    occurrences = np.arange(len(words), dtype=np.int64) + np.repeat(np.arange(len(flat)), flat)
    if beside:
        behind = np.cumsum(layout.lengths.sum(axis=1, dtype=np.int64) + FIELDS) - 1
        occurrences = np.concatenate([occurrences, behind[[number for number, _ in beside]]])
        in_order = np.argsort(occurrences, kind="stable")
        numbers, occurrences = numbers[in_order], occurrences[in_order]
    return _grouped(layout, terms, numbers, occurrences)


def merge(segments: Sequence[tuple[Segment, Mask | None]]) -> Segment:
    """Merge segments into one of the documents that are alive; a mask of None means all."""
    terms = sorted(set().union(*(segment.terms for segment, _ in segments)))
    number_of = {term: number for number, term in enumerate(terms)}
    layout = Layout(
        np.concatenate([_kept(segment.layout.positions, alive) for segment, alive in segments]),
        np.concatenate([_kept(segment.layout.lengths, alive) for segment, alive in segments]),
    )
    numbers, occurrences = [], []
    first = 0
    for segment, alive in segments:
        own = np.fromiter((number_of[term] for term in segment.terms), dtype=np.int32, count=len(segment.terms))
        own = np.repeat(own, segment.counts)
        moved = segment.occurrences.astype(np.int64)
        fields = FIELDS * (len(segment.layout.positions) if alive is None else int(alive.sum()))
        if alive is None:
            moved += layout.starts[first] if fields else 0
        else:
            field = field_of(segment.layout, segment.occurrences)
            kept = np.repeat(alive, FIELDS)
            shift = np.zeros(len(kept), dtype=np.int64)
            shift[kept] = layout.starts[first : first + fields].astype(np.int64) - segment.layout.starts[kept]
            here = kept[field]
            own, moved = own[here], (moved + shift[field])[here]
        first += fields
        numbers.append(own)
        occurrences.append(moved)
    return _grouped(layout, terms, np.concatenate(numbers), np.concatenate(occurrences))


def field_of(layout: Layout, occurrences: Numbers) -> Places:
    """Return the field and document of each occurrence, as `document * FIELDS + field`."""
    found: Places = np.searchsorted(layout.starts, occurrences, side="right") - 1
    return found


def encoded(segment: Segment, language: str) -> EncodedSegment:
    """Encode a segment, whose documents are in that language."""
    return EncodedSegment(language, segment.layout.positions, segment.layout.lengths, list(blocks(segment)))


def blocks(segment: Segment) -> Iterator[Block]:
    """Yield the blocks that store a segment's words, in order."""
    if not segment.terms:
        return
    sizes = segment.counts * 4 + 4
    large = sizes > BLOCK_BYTES
    before = np.cumsum(sizes) - sizes
    # A large term is alone: the terms before it and the terms after it are in other blocks.
    group = before // BLOCK_BYTES + np.cumsum(large) + np.cumsum(large) - large
    firsts = np.flatnonzero(np.diff(group, prepend=-1)).tolist()
    ends = np.cumsum(segment.counts)
    for first, after in zip(firsts, [*firsts[1:], len(segment.terms)], strict=True):
        terms, counts = segment.terms[first:after], segment.counts[first:after]
        occurrences = segment.occurrences[ends[first] - counts[0] : ends[after - 1]]
        yield Block(terms[0], "\n".join(terms), _encoded(counts, occurrences))


def occurrences_in(block: Block, term: str) -> Numbers:
    """Return the occurrences of a term in a block, `NOWHERE` when the block does not have it."""
    spelt = f"\n{block.terms}\n"
    place = spelt.find(f"\n{term}\n")
    if place < 0:
        return NOWHERE
    content = zlib.decompress(block.content)
    number = spelt.count("\n", 0, place)
    counts = np.frombuffer(content, dtype="<u4", count=spelt.count("\n") - 1)
    planes = np.frombuffer(content, dtype=np.uint8, offset=4 * len(counts)).reshape(4, -1)
    first = int(counts[:number].sum(dtype=np.int64))
    return np.cumsum(_steps(planes[:, first : first + int(counts[number])]), dtype=np.uint32)


def decoded(block: Block) -> tuple[list[str], Places, Numbers]:
    """Return the terms of a block, their counts and their occurrences."""
    terms = block.terms.split("\n")
    content = zlib.decompress(block.content)
    counts = np.frombuffer(content, dtype="<u4", count=len(terms)).astype(np.int64)
    steps = _steps(np.frombuffer(content, dtype=np.uint8, offset=4 * len(terms)).reshape(4, -1))
    sums = np.cumsum(steps, dtype=np.int64)
    firsts = np.cumsum(counts) - counts
    return terms, counts, (sums - np.repeat(sums[firsts] - steps[firsts], counts)).astype(np.uint32)


def joined(layout: Layout, parts: Sequence[tuple[list[str], Places, Numbers]]) -> Segment:
    """Join all decoded blocks of a segment, in their order."""
    return Segment(
        layout,
        [term for terms, _, _ in parts for term in terms],
        np.concatenate([counts for _, counts, _ in parts] or [np.zeros(0, dtype=np.int64)]),
        np.concatenate([occurrences for _, _, occurrences in parts] or [np.zeros(0, dtype=np.uint32)]),
    )


def _kept(rows: NDArray[Any], alive: Mask | None) -> NDArray[Any]:
    return rows if alive is None else rows[alive]


def _grouped(layout: Layout, terms: list[str], numbers: NDArray[Any], occurrences: Places) -> Segment:
    # Numbers of 16 bits are sorted digit by digit, in a third of the time.
    order = np.argsort(numbers.astype(np.uint16) if len(terms) < 1 << 16 else numbers, kind="stable")
    counts = np.bincount(numbers, minlength=len(terms)).astype(np.int64)
    if not counts.all():  # some terms occur only in documents that are gone
        terms = [term for term, count in zip(terms, counts, strict=True) if count]
        counts = counts[counts > 0]
    return Segment(layout, terms, counts, occurrences[order].astype(np.uint32))


def _encoded(counts: Places, occurrences: Numbers) -> bytes:
    steps = np.diff(occurrences, prepend=np.uint32(0)).astype("<u4")
    firsts = np.cumsum(counts) - counts
    steps[firsts] = occurrences[firsts]
    planes = np.ascontiguousarray(steps.view(np.uint8).reshape(-1, 4).T)
    return zlib.compress(counts.astype("<u4").tobytes() + planes.tobytes(), 1)


def _steps(planes: NDArray[np.uint8]) -> Numbers:
    return np.ascontiguousarray(planes.T).view("<u4").reshape(-1)
