"""Owners of what one caller made and no other may see: conversations, sessions and notes, watchers."""

from __future__ import annotations

OPEN = ""
"""The owner where callers have no names. It also owns everything that was made before there were owners."""
