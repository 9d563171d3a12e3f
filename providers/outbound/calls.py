"""What is told of each call to another service, for metrics and traces: never where it went or what was sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from schemas.observing import spans

OK, REFUSED, LOST = "ok", "refused", "lost"
"""How a call ended: with an answer that is 2xx, with another answer, or without a whole answer."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call, one attempt of several. Of an answer that is streamed, `seconds` are those until it begins."""

    service: str
    provider: str
    outcome: str
    seconds: float


Told = Callable[[Call], object]


def untold(call: Call) -> None:
    """Tell nobody."""


@dataclass
class Ended:
    outcome: str = OK


@contextmanager
def told_of(told: Told, service: str, provider: str) -> Iterator[Ended]:
    """Tell of the call that the block makes, with the outcome that it sets, or as lost when it raises."""
    began = time.perf_counter()
    ended = Ended()
    try:
        with spans.span("call", service=service, provider=provider):
            yield ended
            spans.note(outcome=ended.outcome)
    except BaseException:
        if ended.outcome == OK:
            ended.outcome = LOST
        raise
    finally:
        told(Call(service, provider, ended.outcome, time.perf_counter() - began))
