"""Give way to others: a command that embeds much does it with what the questions of the service leave over."""

from __future__ import annotations

import os
from contextlib import suppress

_NICENESS = 10
"""Where others keep all cores busy, the process has a tenth of one. At the lowest priority it would have next to
nothing, and the service would cut off a load whose requests arrive too slowly."""


def give_way() -> None:
    """Let other processes compute before this one and those it starts, as far as the system allows."""
    with suppress(OSError):
        os.nice(_NICENESS)
