"""Which text of a conversation is asked with (seed 003, "Hybrid Query Strategy for Contextual Continuity")."""

from __future__ import annotations

from enum import Enum


class Strategy(Enum):
    """The seed's words, in the log and in receipts."""

    FIRST = "first message (raw query)"
    FOLLOW_UP = "follow-up (contextualized topic)"


def choose_query_text(user_message: str, topic: str, current_topic: str) -> tuple[Strategy, str]:
    """The message itself while there is no current topic (empty or white space), else the topic, normalised; a topic
    without words falls back on the current one."""
    if not current_topic.strip():
        return Strategy.FIRST, user_message
    return Strategy.FOLLOW_UP, normalized(topic) or normalized(current_topic)


def normalized(topic: str) -> str:
    """In lower case, without white space around it and with single spaces in it."""
    return " ".join(topic.split()).lower()
