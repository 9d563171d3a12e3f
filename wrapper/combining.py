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


class Ticket(Generic[Request, Result]):
    """One request on its way. Whoever runs it settles it, with a result or an error."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.settled = False
        self.leads = False
        self.woken = threading.Event()
        self._result: Result | None = None
        self._error: Exception | None = None

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
    run at a time."""

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

    def do(self, request: Request) -> Result:
        """The result of one request, or its error."""
        ticket: Ticket[Request, Result] = Ticket(request)
        with self._guard:
            if self._leaders < self._at_once:
                self._leaders += 1
                ticket.leads = True
            else:
                self._waiting.append(ticket)
        if not ticket.leads:
            self._wait(ticket)
        if ticket.leads:
            self._lead(ticket)
        return ticket.outcome()

    def _wait(self, ticket: Ticket[Request, Result]) -> None:
        try:
            ticket.woken.wait()
        except BaseException:
            # This thread is being ended: nobody may wait for it.
            with self._guard:
                if ticket in self._waiting:
                    self._waiting.remove(ticket)
            if ticket.leads:
                self._hand_over([])
            raise

    def _lead(self, own: Ticket[Request, Result]) -> None:
        with self._guard:
            others = [ticket for ticket in self._waiting if self._alike(own.request, ticket.request)][: self._most - 1]
            self._waiting = [ticket for ticket in self._waiting if ticket not in others]
        try:
            self._run([own, *others])
        finally:
            # A thread that is being ended takes nobody with it: what it has not settled waits again.
            self._hand_over([ticket for ticket in others if not ticket.settled])
            for ticket in others:
                if ticket.settled:
                    ticket.woken.set()

    def _hand_over(self, unsettled: list[Ticket[Request, Result]]) -> None:
        with self._guard:
            self._waiting[:0] = unsettled
            if not self._waiting:
                self._leaders -= 1
                return
            successor = self._waiting.pop(0)
            successor.leads = True
            successor.woken.set()
