"""Give way to others: a command that embeds much does it with what the questions of the service leave over."""

from __future__ import annotations

import os
from contextlib import suppress

_LOWEST_NICENESS = 19


def give_way() -> None:
    """Run this process, and those it starts, only when nobody else wants the processor, as far as the system allows."""
    with suppress(OSError):
        os.nice(_LOWEST_NICENESS)
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
