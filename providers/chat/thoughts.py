"""Thoughts that a model writes into its answer, between tags, and the answer without them.

Thoughts are what stands between tags at the beginning, one after another, and all of an answer whose first tag is not
closed. Some servers leave the opening tag out: then they end with the first closing tag that neither follows an opening
one nor is only mentioned, in code, in quotation marks or between blanks. Tags anywhere else are text.
"""

from __future__ import annotations

import re
from math import inf

_NAMES = ("think", "thinking", "thought", "thoughts", "reason", "reasoning", "reflection", "seed:think")
_HARMONY = ("", "<|start|>assistant")
_CLOSED_BY = {
    **{f"<{name}>": f"</{name}>" for name in _NAMES},
    "[think]": "[/think]",
    "◁think▷": "◁/think▷",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|start_thinking|>": "<|end_thinking|>",
    "<|channel>thought": "<channel|>",
    **{f"{start}<|channel|>{of}": "<|channel|>final" for start in _HARMONY for of in ("analysis", "commentary")},
    **{f"{start}<|channel|>final": "" for start in _HARMONY},
    **dict.fromkeys(("<|message|>", "<|begin_of_solution|>", "<|start_response|>"), ""),
}
"""What closes what each tag opens, nothing where it only says that the answer begins. Case does not matter."""
_LONGEST = max(map(len, _CLOSED_BY))
_OPENING = re.compile("|".join(map(re.escape, _CLOSED_BY)), re.IGNORECASE)
_CLOSING = re.compile("|".join(re.escape(each) for each in {*_CLOSED_BY.values()} - {""}), re.IGNORECASE)
_BEFORE_MENTIONED, _AFTER_MENTIONED = " \"'“‘«(", " \"'”’»),.;:?!"
_CODE = r"(?P<code>```[^`]*+```|`[^`\n]++`)"
_ANY_TAG = re.compile(f"{_CODE}|(?P<closing>{_CLOSING.pattern})|{_OPENING.pattern}", re.IGNORECASE)
_LINE = 80
"""The characters after a closing tag that tell whether it is only mentioned."""
_UNOPENED = re.compile(r"\br1\b|qwq|think|reason|minimax-m", re.IGNORECASE)
"""The names of models whose templates write the opening tag into the prompt."""


def leaves_tags_open(model: str) -> bool:
    """Return whether a model's name says that its answers may begin with thoughts without a tag."""
    return _UNOPENED.search(model) is not None


def parted(text: str) -> tuple[str, str, bool]:
    """Return (the thoughts, the answer, whether the tag that opens the thoughts is left out) of a whole answer."""
    parting = Parting(holds=True)
    taken, rest = parting.take(text), parting.rest()
    return taken[0] + rest[0], taken[1] + rest[1], parting.was_unopened


class Parting:
    """Parts an answer as it arrives. A few characters that may become a tag are held back, and if it `holds`, all text
    until the closing tag of thoughts without an opening one, or the end."""

    def __init__(self, *, holds: bool) -> None:
        self.holds = holds
        self.was_unopened = False
        self._tail = ""
        self._closing: re.Pattern[str] | None = None
        self._pieces: list[str] = []
        self._length = 0
        self._next_look: float = inf
        self._has_thought = self._is_answer = self._is_held = False

    def take(self, text: str) -> tuple[str, str]:
        """Return (thoughts, text of the answer) that are known by now."""
        thought = ""
        while not self._is_answer:
            if self._is_held:
                self._pieces.append(text)
                seen, self._tail = self._tail + text, (self._tail + text)[-_LONGEST:]
                self._length += len(text)
                if self._next_look == inf and (closed := _CLOSING.search(seen)):
                    self._next_look = self._length - len(seen) + closed.end() + _LINE
                if self._length < self._next_look or (found := self._unopened()) is None:
                    return thought, ""
                thought, text = found
                continue
            text, self._tail = self._tail + text, ""
            if self._closing is None:
                begun = text.lstrip()
                if opened := _OPENING.match(begun):
                    self._closing = re.compile(re.escape(_CLOSED_BY[opened[0].lower()]), re.IGNORECASE)
                    self._has_thought = True
                    text = begun[opened.end() :]
                elif any(tag.startswith(begun.lower()) for tag in _CLOSED_BY):
                    self._tail = begun
                    self._pieces.append(text[: len(text) - len(begun)])
                    return thought, ""
                else:
                    text = begun if self._has_thought else "".join((*self._pieces, text))
                    self._pieces.clear()
                    self._is_held = self.holds and not self._has_thought
                    self._is_answer = not self._is_held
            elif closed := self._closing.search(text):
                thought, text, self._closing = thought + text[: closed.start()], text[closed.end() :], None
            else:
                known = max(0, len(text) - _LONGEST)
                self._tail = text[known:]
                return thought + text[:known], ""
        return thought, text

    def rest(self) -> tuple[str, str]:
        """Return the same of what was held back when the answer has ended."""
        if self._is_held:
            return self._unopened() or ("", "".join(self._pieces))
        if self._closing:
            return self._tail, ""
        return "", self._tail if self._has_thought else "".join((*self._pieces, self._tail))

    def _unopened(self) -> tuple[str, str] | None:
        """Return (the thoughts before a closing tag that was not opened, what follows), None where there is no such."""
        whole = "".join(self._pieces)
        found = _unopened_closing(whole)
        if found is None:
            self._next_look = 2 * self._length
            return None
        self._is_held, self._has_thought, self.was_unopened = False, True, True
        self._tail = ""
        self._pieces.clear()
        return whole[: found[0]], whole[found[1] :].lstrip()


def _unopened_closing(text: str) -> tuple[int, int] | None:
    """Return where the first closing tag stands that was not opened and is not only mentioned."""
    opened: set[str] = set()
    for tag in _ANY_TAG.finditer(text):
        start, end = tag.span()
        if tag["code"]:
            continue
        if tag["closing"] is None:
            opened.add(_CLOSED_BY[tag[0].lower()])
        elif tag[0].lower() not in opened and not (
            text[max(0, start - 1) : start] in tuple(_BEFORE_MENTIONED)
            and text[end : end + 1] in tuple(_AFTER_MENTIONED)
        ):
            return start, end
    return None
