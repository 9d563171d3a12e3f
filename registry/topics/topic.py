"""The topic of a conversation, for clients that have no detector of their own.

The contract *storage* takes the accumulated topic as given ("InstructLab and OpenShift AI integration"). Here it is
kept and updated, by a rule that needs no other service or by a chat model. Neither is used unless a caller asks for it.

The rule takes a message to be about its words, without those that only hold a sentence together. A message that stands
on its own begins a new topic. A message that leans on what was said (it has a pronoun, begins like a continuation or is
very short) keeps the topic's words and adds its own behind them. In scripts without spaces, what stands between the
words that hold a sentence together is one word of the topic, and two letters are as much as a word elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from providers.chat.base import ChatProvider
from registry.topics.query_text import normalized
from schemas.contracts.chat import Message
from schemas.words.splitting import MARKS, is_spaceless, script_parts, split
from schemas.words.stop_words import SPACELESS_STOP_WORDS, stop_words_of

MAX_TOPIC_WORDS = 16
"""The topic keeps its last words: the next question is seldom about what was said long ago."""
SHORT_MESSAGE_WORDS = 1
WORDS_OF_A_NOUN = 2
MAX_TOPIC_CHARACTERS = 300

_WORD = re.compile(rf"[\w$][\w$+#'’./{MARKS}-]*")
LEANING = """
it its it's itself they them their theirs this that these those he him his she her hers one ones there here both either
neither former latter same such another else
"""
"""Words that stand for something said before."""
SPACELESS_LEANING = """
这个 那个 这里 那里 这些 那些 它们 它 这样 那样 然后 那么
それ これ あれ その この あの そこ ここ
그것 이것 그거 이거
อันนี้ อันนั้น พวกนี้ พวกนั้น มัน
"""
"""Such words in scripts without spaces."""
EMPTY = """
a an the and or but so if then than as at by for from in into of off on onto out over to up with without about is are
was were be been being am do does did doing done has have had having can could may might must shall should will would
not no nor yes i me my mine we us our ours you your yours who whom whose which what when where why how also too very
just only please tell show explain give get let make need want know like many much more most some any all each every
thing things way ok okay thanks thank hello hi hey actually really still again
"""
"""Words that hold a sentence together and do not say what it is about."""

_LEANING = frozenset(LEANING.split())
_EMPTY = _LEANING.union(EMPTY.split())
_SPACELESS_LEANING = tuple(SPACELESS_LEANING.split())
_SPACELESS_EMPTY = (*_SPACELESS_LEANING, *SPACELESS_STOP_WORDS)
# Endings and particles are in hiragana in Japanese, and part of the word in Korean.
_HOLDING = re.compile(
    rf"((?:{'|'.join(sorted(_SPACELESS_EMPTY, key=len, reverse=True))})[\uac00-\ud7a3]*|[\u3041-\u309f]+)"
)
_CONTINUING = re.compile(r"(?i)(and|but|or|so|also|then|what about|how about|what if|why not|why|in that case)\b")


class TopicKeeper(Protocol):
    def next_topic(self, topic: str, message: str) -> str:
        """Return the topic after this message; `topic` is the one before it, empty at the beginning."""


class TopicByRule:
    """Decides by the rule: the same words always give the same topic, without a call."""

    def next_topic(self, topic: str, message: str) -> str:
        words, is_empty = _words(message)
        said = [word for word in words if not is_empty(word)]
        before = normalized(topic).split()
        if before and not leans_on_topic(message):
            before = []
        together = [word for word in before if word not in said] + list(dict.fromkeys(said))
        return " ".join(together[-MAX_TOPIC_WORDS:]) or normalized(topic) or normalized(message)


def leans_on_topic(message: str) -> bool:
    """Return whether a message cannot be understood without what was said before it.

    A pronoun after two words of substance has its noun in the message itself.
    """
    words, is_empty = _words(message)
    said = 0
    for word in words:
        if (word in _LEANING or word.startswith(_SPACELESS_LEANING)) and said < WORDS_OF_A_NOUN:
            return True
        if not is_empty(word):
            said += (len(split(word)) + 1) // 2 if is_spaceless(word) else 1
    return said <= SHORT_MESSAGE_WORDS or _CONTINUING.match(message.strip()) is not None


def _words(message: str) -> tuple[list[str], Callable[[str], bool]]:
    """Return the words of a message, and what tells those that do not say what it is about."""
    words = []
    for found in _WORD.findall(message):
        for part in script_parts(found):
            parts = _HOLDING.split(part) if is_spaceless(part) else [part]
            words += [word for each in parts if (word := each.strip("'’.-/").lower())]
    is_stop_word = stop_words_of(words)

    def is_empty(word: str) -> bool:
        return word in _EMPTY or word.startswith(_SPACELESS_EMPTY) or is_stop_word(word)

    return words, is_empty


class TopicByChat:
    """Asks a chat model; the rule decides when its answer is unusable. Errors of the model reach the caller."""

    def __init__(self, chat: ChatProvider) -> None:
        self._chat = chat
        self._rule = TopicByRule()

    def next_topic(self, topic: str, message: str) -> str:
        asked = f"Topic so far: {topic.strip() or '(none)'}\nNext message: {message.strip()}"
        options = {"temperature": 0, "max_tokens": 60}
        answer = self._chat.chat([Message("system", INSTRUCTION), Message("user", asked)], options=options)
        first_line = next((line for line in answer.content.splitlines() if line.strip()), "")
        said = normalized(first_line.strip().removeprefix("Topic:").strip(" .\"'`*"))
        return said if 0 < len(said) <= MAX_TOPIC_CHARACTERS else self._rule.next_topic(topic, message)


INSTRUCTION = (
    "You keep the topic of a conversation for a document search. Given the topic so far and the next message, answer "
    "with the topic after it: one noun phrase of at most twelve words that names every subject the message needs to be "
    "understood, with pronouns replaced by what they stand for. When the message is about something new, name only the "
    "new subject. Answer with the phrase alone."
)
