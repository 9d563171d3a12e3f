"""Coalesces requests that many threads make at once: one commit for several writes, one call for several queries.

A thread that comes while nothing is under way runs its own request at once, so a single client never waits for company.
Threads that come later wait, and the first of them is handed the lead when it is free (flat combining, Hendler et al.
2010).
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
    """A request on its way. The thread that runs it settles it, with a result or an error."""

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
        """Return whether the request is still wanted; if so, its caller waits for it from now on."""
        with self._guard:
            self._begun = not self.settled
            return self._begun

    def give_up(self) -> bool:
        """Return whether the caller need not wait any more: the request will never begin, or it is settled."""
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


class Coalescer(Generic[Request, Result]):
    """Runs requests in batches of at most `most`, `at_once` batches at a time.

    `run` settles every ticket of a batch, all of which are `alike` the first. Where requests may be given up, it calls
    `begin` on each before it works on it.
    """

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
        """The number of requests that wait for a lead."""
        return len(self._waiting)

    def do(self, request: Request, *, begun_within_seconds: float | None = None) -> Result:
        """Return the result of a request, or raise its error; GivenUpError when it was not begun in time."""
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
            # This thread is being ended: no other may wait for it.
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
            # A thread that is being ended takes no other with it: tickets that it has not settled wait again.
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
