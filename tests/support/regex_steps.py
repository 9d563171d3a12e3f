"""Count the steps of a backtracking search with a plain matcher that reads patterns as `re` does.

`re` itself skips some of these steps and adds none.
"""

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Then = Callable[[int], Iterator[int]]


class Steps:
    """Looks for a pattern in a text and counts the characters, places and assertions it tries."""

    def __init__(self, pattern: re.Pattern[Any], text: Any) -> None:
        self.count = 0
        self._text = text
        self._tree, self._flags = _parsed(pattern)

    def find_all(self) -> int:
        """Return the number of steps of a complete `finditer`."""
        place = 0
        while place <= len(self._text):
            end = next(self._match(self._tree, 0, place), None)
            place = place + 1 if end is None or end == place else end
        return self.count

    def match_first(self) -> int:
        """Return the number of steps of every way that `fullmatch` can try."""
        for _ in self._match(self._tree, 0, 0):
            pass
        return self.count

    def _match(self, nodes: list[Any], index: int, place: int) -> Iterator[int]:
        """Yield the ends of matches of the nodes from `index` on that begin at `place`, in the order of
        backtracking."""
        self.count += 1
        if index == len(nodes):
            yield place
            return
        op, argument = nodes[index]
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            yield from self._repeated(nodes, index, place)
            return
        for end in self._ends(op, argument, place):
            yield from self._match(nodes, index + 1, end)

    def _repeated(self, nodes: list[Any], index: int, place: int) -> Iterator[int]:
        op, (least, most, inner) = nodes[index]
        # One iterator for each repetition so far: `re` backtracks through them in the same way.
        stack: list[tuple[int, Iterator[int]]] = []
        at, turns = place, 0
        body = inner.data
        if op is ops.MIN_REPEAT:
            yield from self._lazily(nodes, index, place, 0, least, most, body)
            return
        while True:
            while turns < most:
                ends = self._match(body, 0, at)
                end = next(ends, None)
                if end is None or (end == at and turns >= least):
                    break
                stack.append((at, ends))
                at, turns = end, turns + 1
            while True:
                if turns >= least:
                    yield from self._match(nodes, index + 1, at)
                if not stack:
                    return
                at, ends = stack.pop()
                turns -= 1
                other = next(ends, None)
                if other is not None:
                    stack.append((at, ends))
                    at, turns = other, turns + 1
                    break

    def _lazily(
        self, nodes: list[Any], index: int, place: int, turns: int, least: int, most: int, body: list[Any]
    ) -> Iterator[int]:
        if turns >= least:
            yield from self._match(nodes, index + 1, place)
        if turns < most:
            for end in self._match(body, 0, place):
                if end > place:
                    yield from self._lazily(nodes, index, end, turns + 1, least, most, body)

    def _ends(self, op: Any, argument: Any, place: int) -> Iterator[int]:
        if op is ops.SUBPATTERN:
            yield from self._match(argument[3].data, 0, place)
        elif op is ops.BRANCH:
            for branch in argument[1]:
                yield from self._match(branch.data, 0, place)
        elif op in (ops.ASSERT, ops.ASSERT_NOT):
            if self._asserted(*argument, place) is (op is ops.ASSERT):
                yield place
        elif op is ops.AT:
            if _anchored(argument, self._flags, self._text, place):
                yield place
        elif place < len(self._text) and _one_character(op, argument, self._flags)(self._text[place : place + 1]):
            yield place + 1

    def _asserted(self, direction: int, inner: Any, place: int) -> bool:
        begin = place if direction > 0 else place - inner.getwidth()[0]
        return begin >= 0 and next(self._match(inner.data, 0, begin), None) is not None


@cache
def _parsed(pattern: re.Pattern[Any]) -> tuple[list[Any], int]:
    """Return the nodes of a pattern and its flags."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.LOCALE)
    return tree.data, tree.state.flags


class Kinds:
    """Sorts characters into kinds that a pattern cannot tell apart: two texts whose characters are of the same kinds,
    place by place, take the same number of steps."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        tree, flags = _parsed(pattern)
        word = re.compile(r"\w" if isinstance(pattern.pattern, str) else rb"\w", flags)
        self._newline = "\n" if isinstance(pattern.pattern, str) else b"\n"
        self._tests = [
            lambda character: word.match(character) is not None,
            lambda character: character == self._newline,
        ]
        self._tests += [_one_character(op, argument, flags) for op, argument in _leaves(tree)]
        self.of_character = cache(lambda character: tuple(test(character) for test in self._tests))

    def of(self, text: Any) -> tuple[tuple[bool, ...], ...]:
        return tuple(self.of_character(text[place : place + 1]) for place in range(len(text)))


def _leaves(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the nodes of a tree that take one character."""
    for op, argument in node:
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            yield from _leaves(argument[2])
        elif op is ops.SUBPATTERN:
            yield from _leaves(argument[3])
        elif op is ops.BRANCH:
            for branch in argument[1]:
                yield from _leaves(branch)
        elif op in (ops.ASSERT, ops.ASSERT_NOT):
            yield from _leaves(argument[1])
        elif op is not ops.AT:
            yield op, argument


def _anchored(kind: Any, flags: int, text: Any, place: int) -> bool:
    source = {ops.AT_BEGINNING: "^", ops.AT_BEGINNING_STRING: r"\A", ops.AT_BOUNDARY: r"\b", ops.AT_NON_BOUNDARY: r"\B"}
    source |= {ops.AT_END: "$", ops.AT_END_STRING: r"\Z"}
    pattern: Any = source[kind] if isinstance(text, str) else source[kind].encode()
    return re.compile(pattern, flags).match(text, place) is not None


_TESTS: dict[tuple[int, Any, int], Callable[[Any], bool]] = {}


def _one_character(op: Any, argument: Any, flags: int) -> Callable[[Any], bool]:
    """Return whether a node of the tree takes this character, according to `re`'s own compiler. A list is known by its
    place in memory, which no other has, since trees are kept."""
    key = (op, id(argument) if isinstance(argument, list) else argument, flags)
    if key not in _TESTS:
        state = parser.State()
        state.flags = flags
        pattern = compiler.compile(parser.SubPattern(state, [(op, argument)]), flags)
        _TESTS[key] = cache(lambda character: pattern.match(character) is not None)
    return _TESTS[key]


def steps(pattern: re.Pattern[Any], text: Any, *, only_first: bool = False) -> int:
    """Return the steps of finding every match of `pattern` in `text`; with `only_first`, of matching it at the
    beginning."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        counter = Steps(pattern, text)
        return counter.match_first() if only_first else counter.find_all()
    finally:
        sys.setrecursionlimit(limit)
