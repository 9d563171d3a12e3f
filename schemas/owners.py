"""Whose something is that one caller made and no other is to see: conversations, sessions and notes, watchers."""

from __future__ import annotations

OPEN = ""
"""Whoever asks a service that asks nobody for a name. What was made before there were owners is theirs."""
