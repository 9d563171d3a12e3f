"""A process that works in the background is stopped while a question is under way, and then goes on where it was."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from collections.abc import Callable
from typing import IO

from schemas.giving_way import LOOK_SECONDS, QUESTIONS, Turn

_PR_SET_PDEATHSIG = 1
CAN_STOP = sys.platform == "linux"
"""Whether a stopped process goes on when nobody can wake it any more, so that it notices and ends."""


def begin_in_background(nice: int) -> None:
    """Have this process work at a low priority, and go on when whoever stopped it is gone."""
    os.nice(nice)
    if CAN_STOP:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)


def await_answer(answers: IO[bytes], turn: Turn, send: Callable[[int], None]) -> None:
    """Wait until a process begins to answer. `turn` is its own, and `send` sends it a signal."""
    poll = select.poll()
    poll.register(answers, select.POLLIN)
    turn.may_wait(has_waited=False)
    is_stopped = False
    try:
        while not poll.poll(LOOK_SECONDS * 1e3):
            is_to_stop = turn.may_wait(has_waited=is_stopped) and QUESTIONS.are_under_way()
            if is_to_stop != is_stopped:
                send(signal.SIGSTOP if is_to_stop else signal.SIGCONT)
                is_stopped = is_to_stop
    finally:
        if is_stopped:
            send(signal.SIGCONT)
