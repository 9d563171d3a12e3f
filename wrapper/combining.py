"""What many threads ask for at the same time, done together: one commit for several writes, one call for several
queries.

Whoever comes while nothing is under way does its own at once, so a single client never waits for company. Whoever
comes later waits, and the first of them is handed the lead when the lead is free (flat combining, Hendler et al. 2010).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

Request = TypeVar("Request")
Result = TypeVar("Result")


class GivenUpError(Exception):
    """A request was not begun in time, and will not be."""


class Ticket(Generic[Request, Result]):
    """One request on its way. Whoever runs it settles it, with a result or an error."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.settled = False
        self.leads = False
        self.woken = threading.Event()
        self._result: Result | None = None
        self._error: Exception | None = None
        self._guard = threading.Lock()
        self._begun = False

    def begin(self) -> bool:
        """Whether it is still wanted. From then on it is waited for."""
        with self._guard:
            self._begun = not self.settled
            return self._begun

    def give_up(self) -> bool:
        """Whether nobody has to wait for it any more: it was not begun and will not be, or it is settled."""
        with self._guard:
            if not self._begun and not self.settled:
                self.fail(GivenUpError())
            return self.settled

    def succeed(self, result: Result) -> None:
        self._result, self.settled = result, True

    def fail(self, error: Exception) -> None:
        self._error, self.settled = error, True

    def outcome(self) -> Result:
        if self._error is not None:
            raise self._error
        return cast(Result, self._result)


class Combiner(Generic[Request, Result]):
    """`run` settles every ticket of a batch of at most `most`, which are all `alike` its first; `at_once` batches may
    run at a time. Where requests may be given up, it begins each before it works on it."""

    def __init__(
        self,
        run: Callable[[list[Ticket[Request, Result]]], None],
        *,
        most: int,
        at_once: int = 1,
        alike: Callable[[Request, Request], bool] = lambda one, other: True,
    ) -> None:
        self._run, self._most, self._at_once, self._alike = run, most, at_once, alike
        self._guard = threading.Lock()
        self._waiting: list[Ticket[Request, Result]] = []
        self._leaders = 0

    @property
    def waiting(self) -> int:
        """How many requests wait for a lead."""
        return len(self._waiting)

    def do(self, request: Request, *, begun_within_seconds: float | None = None) -> Result:
        """The result of one request, or its error. Raises GivenUpError when nobody has begun it in time."""
        ticket: Ticket[Request, Result] = Ticket(request)
        with self._guard:
            if self._leaders < self._at_once:
                self._leaders += 1
                ticket.leads = True
            else:
                self._waiting.append(ticket)
        if not ticket.leads:
            self._wait(ticket, begun_within_seconds)
        if ticket.leads:
            self._lead(ticket)
        return ticket.outcome()

    def _wait(self, ticket: Ticket[Request, Result], seconds: float | None) -> None:
        try:
            if not ticket.woken.wait(seconds):
                if ticket.give_up():
                    self._leave(ticket)
                    return
                ticket.woken.wait()
        except BaseException:
            # This thread is being ended: nobody may wait for it.
            self._leave(ticket)
            raise

    def _leave(self, ticket: Ticket[Request, Result]) -> None:
        with self._guard:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            was_to_lead, ticket.leads = ticket.leads, False
        if was_to_lead:
            self._hand_over([])

    def _lead(self, own: Ticket[Request, Result]) -> None:
        with self._guard:
            others = [ticket for ticket in self._waiting if self._alike(own.request, ticket.request)][: self._most - 1]
            self._waiting = [ticket for ticket in self._waiting if ticket not in others]
        try:
            self._run([own, *others])
        finally:
            # A thread that is being ended takes nobody with it: what it has not settled waits again.
            self._hand_over(others)
            for ticket in others:
                if ticket.settled:
                    ticket.woken.set()

    def _hand_over(self, others: list[Ticket[Request, Result]]) -> None:
        with self._guard:
            self._waiting[:0] = [ticket for ticket in others if not ticket.settled]
            if not self._waiting:
                self._leaders -= 1
                return
            successor = self._waiting.pop(0)
            successor.leads = True
            successor.woken.set()
