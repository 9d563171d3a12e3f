"""The topic of a conversation, for clients that have no detector of their own.

The contract *storage* takes the accumulated topic as given ("InstructLab and OpenShift AI integration"). Here it is
kept and updated, by a rule that needs no other service or by a chat model. Neither is used unless a caller asks for it.

The rule takes a message to be about its words without stop words. A message that leans on what was said (it begins like
a continuation or a correction, points at something, or names one thing at most) adds its words to the topic, and what a
correction says is *not* meant leaves it. Any other message begins a new topic, as does one that announces it.

In scripts without spaces, what stands between the words that hold a sentence together is one word of the topic, and two
letters are as much as a word elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import yaml

from providers.chat.base import UNUSABLE_ANSWER, ChatProvider
from registry.topics.query_text import Strategy, choose_query_text, normalized
from schemas.contracts.chat import Message
from schemas.errors import UnavailableError
from schemas.words.splitting import MARKS, is_spaceless, script_parts, split
from schemas.words.stop_words import SPACELESS_STOP_WORDS, stop_words_of

KEPT_WORDS = 8
"""Of a long topic the first words, which are its subject, are kept, and as many of the last."""
MAX_LEANING_WORDS = 1
"""A message with more words of substance can stand alone."""
MAX_DETAIL_WORDS, MAX_CONTINUING_WORDS = 2, 4
"""The same of one that begins as a question after a detail does, and as a continuation does."""
WORDS_BEFORE_A_POINTER = 3
"""What points behind so many words points at one of them."""
MAX_TOPIC_CHARACTERS = 300

_PHRASES: dict[str, dict[str, list[str]]] = yaml.safe_load(
    Path(__file__).with_name("phrases.yaml").read_text(encoding="utf-8")
)
_WORD = re.compile(rf"[\w$][\w$+#'’./{MARKS}-]*")


def _listed(name: str) -> list[str]:
    """Return the phrases of all languages, the longest first."""
    return sorted((phrase for phrases in _PHRASES[name].values() for phrase in phrases), key=len, reverse=True)


def _phrases(name: str) -> str:
    """Return the expression of a phrase of the list."""
    return rf"(?:{'|'.join(_listed(name))})(?![\w-])".replace(" ", r"\W{1,3}")


_CLAUSE = r"(?i)(?:^|[.!?,;:–]|\s-)\s*"
# Within a clause ("I have another question: …") a sign must follow: "is there something else that I need" goes on.
_CHANGING = re.compile(
    rf"{_CLAUSE}(?:{_phrases('changing')}|(?:\w+\s+){{1,4}}{_phrases('changing')}(?=\s*[:,.;–-]))\W*"
)
_CORRECTING = re.compile(rf"{_CLAUSE}(?:{_phrases('correcting')}\W*)+")
_CONTINUING = re.compile(rf"(?i)^\W*(?:{_phrases('continuing')}\W*)+")
_DETAILING = re.compile(rf"(?i)^\W*{_phrases('detailing')}")
_NEGATED = re.compile(rf"(?i)\b{_phrases('negating')}([^,.;:!?]*)")
_POINTING, _LIGHT, _POLITE = (frozenset(_listed(name)) for name in ("pointing", "light", "polite"))
_SPACELESS_POINTING = tuple(word for word in _listed("pointing") if is_spaceless(word))
_SPACELESS_EMPTY = (*_SPACELESS_POINTING, *SPACELESS_STOP_WORDS)
# Endings and particles are in hiragana in Japanese, and part of the word in Korean.
_HOLDING = re.compile(
    rf"((?:{'|'.join(sorted(_SPACELESS_EMPTY, key=len, reverse=True))})[\uac00-\ud7a3]*|[\u3041-\u309f]+)"
)


class TopicKeeper(Protocol):
    def next_topic(self, topic: str, message: str) -> str:
        """Return the topic after this message; `topic` is the one before it, empty at the beginning."""


class TopicByRule:
    """Decides by the rule: the same words always give the same topic, without a call."""

    def next_topic(self, topic: str, message: str) -> str:
        before = normalized(topic).split()
        if change := _CHANGING.search(message):
            before, message = [], message[change.end() :] or message
        elif _CORRECTING.search(message):
            for negated in _NEGATED.finditer(message):
                if not (denied := set(_said(negated[1]))).isdisjoint(before):
                    before = [word for word in before if word not in denied]
                    message = message.replace(negated[0], " ")
            message = _CORRECTING.sub(" ", message)
        elif not leans_on_topic(message):
            before = []
        if goes_on := _CONTINUING.match(message):
            message = message[goes_on.end() :]
        together = list(dict.fromkeys([*before, *_said(message)]))
        kept = together[:KEPT_WORDS] + together[KEPT_WORDS:][-KEPT_WORDS:]
        return " ".join(kept) or normalized(topic) or normalized(message)


def leans_on_topic(message: str) -> bool:
    """Return whether a message cannot be understood without what was said before it."""
    words, is_empty = _words(message)
    said = 0
    for word in words:
        if said < WORDS_BEFORE_A_POINTER and (word in _POINTING or word.startswith(_SPACELESS_POINTING)):
            return True
        if not is_empty(word) and word not in _LIGHT:
            said += (len(split(word)) + 1) // 2 if is_spaceless(word) else 1
    if _CONTINUING.match(message):
        return said <= MAX_CONTINUING_WORDS
    return said <= (MAX_DETAIL_WORDS if _DETAILING.match(message) else MAX_LEANING_WORDS)


def _said(message: str) -> list[str]:
    """Return the words that say what a message is about."""
    words, is_empty = _words(message)
    return [word for word in words if not is_empty(word)]


def _words(message: str) -> tuple[list[str], Callable[[str], bool]]:
    """Return the words of a message, and what tells those that do not say what it is about."""
    words = []
    for found in _WORD.findall(message):
        for part in script_parts(found):
            parts = _HOLDING.split(part) if is_spaceless(part) else [part]
            words += [word for each in parts if (word := each.strip("'’.-/").lower())]
    is_stop_word = stop_words_of(words)

    def is_empty(word: str) -> bool:
        return word in _POINTING or word in _POLITE or word.startswith(_SPACELESS_EMPTY) or is_stop_word(word)

    return words, is_empty


def searched_text(messages: Sequence[str]) -> tuple[Strategy, str]:
    """Return how the text was chosen to search with for the last of a user's messages, and the text.

    A message that begins the conversation, or a new subject, is searched as it is; a follow-up as the topic that the
    messages have accumulated.
    """
    keeper, message = TopicByRule(), messages[-1]
    before = topic = ""
    for each in messages:
        before, topic = topic, keeper.next_topic(topic, each)
    return choose_query_text(message, topic, "" if topic == keeper.next_topic("", message) else before)


class TopicByChat:
    """Asks a chat model; the rule decides when its answer is unusable, as thoughts alone are. Other errors of the model
    reach the caller."""

    def __init__(self, chat: ChatProvider) -> None:
        self._chat = chat
        self._rule = TopicByRule()

    def next_topic(self, topic: str, message: str) -> str:
        asked = f"Topic so far: {topic.strip() or '(none)'}\nNext message: {message.strip()}"
        options = {"temperature": 0, "max_tokens": 60}
        try:
            answer = self._chat.chat([Message("system", INSTRUCTION), Message("user", asked)], options=options)
        except UnavailableError as error:
            if error.code != UNUSABLE_ANSWER:
                raise
            return self._rule.next_topic(topic, message)
        first_line = next((line for line in answer.content.splitlines() if line.strip()), "")
        said = normalized(first_line.strip().removeprefix("Topic:").strip(" .\"'`*"))
        return said if 0 < len(said) <= MAX_TOPIC_CHARACTERS else self._rule.next_topic(topic, message)


INSTRUCTION = (
    "You keep the topic of a conversation for a document search. Given the topic so far and the next message, answer "
    "with the topic after it: one noun phrase of at most twelve words that names every subject the message needs to be "
    "understood, with pronouns replaced by what they stand for. When the message is about something new, name only the "
    "new subject. Answer with the phrase alone."
)
