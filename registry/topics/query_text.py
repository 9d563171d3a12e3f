"""The choice of the text to search with (contract *storage*, "Hybrid Query Strategy for Contextual Continuity")."""

from __future__ import annotations

from enum import Enum


class Strategy(Enum):
    """The contract's words for how the text was chosen, as the log and receipts have them."""

    FIRST = "first message (raw query)"
    FOLLOW_UP = "follow-up (contextualized topic)"


def choose_query_text(user_message: str, topic: str, current_topic: str) -> tuple[Strategy, str]:
    """Return the message while there is no current topic (empty or white space), else the normalised topic.

    A topic without words falls back on the current one.
    """
    if not current_topic.strip():
        return Strategy.FIRST, user_message
    return Strategy.FOLLOW_UP, normalized(topic) or normalized(current_topic)


def normalized(topic: str) -> str:
    """Return the topic in lower case, stripped, with single spaces."""
    return " ".join(topic.split()).lower()
