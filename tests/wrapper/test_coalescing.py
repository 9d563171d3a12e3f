"""Requests of many threads in one batch, whatever happens to the thread that leads."""

import threading

import pytest

from tests.support.live import PATIENCE_SECONDS
from wrapper.coalescing import Coalescer, GivenUpError, Ticket


class Batches:
    """Runs batches of numbers, each settled with its square; the first batch waits until `go`."""

    def __init__(self):
        self.seen = []
        self.under_way = threading.Event()
        self.go = threading.Event()

    def run(self, tickets):
        numbers = [ticket.request for ticket in tickets]
        self.seen.append(numbers)
        self.under_way.set()
        assert self.go.wait(PATIENCE_SECONDS)
        for ticket in tickets:
            if ticket.request == "end":
                raise SystemExit
            if ticket.request < 0:
                ticket.fail(ValueError(ticket.request))
            else:
                ticket.succeed(ticket.request**2)


def together(combiner, batches, requests):
    """Return the outcome of each request after the first; the first one waits until all of them wait."""
    outcomes = [None] * len(requests)

    def do(place):
        try:
            outcomes[place] = combiner.do(requests[place])
        except BaseException as error:
            outcomes[place] = error

    threads = [threading.Thread(target=do, args=(place,), daemon=True) for place in range(len(requests))]
    threads[0].start()
    assert batches.under_way.wait(PATIENCE_SECONDS)
    for waiting, thread in enumerate(threads[1:]):
        thread.start()
        while combiner.waiting <= waiting:
            assert thread.is_alive()
    batches.go.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    return outcomes[1:]


@pytest.fixture
def batches():
    return Batches()


def of_one_parity(one, other):
    return one % 2 == other % 2


@pytest.mark.parametrize(
    ("requests", "outcomes", "seen", "alike"),
    [
        ([0, 1, 2, 3, 4, 5, 6], [1, 4, 9, 16, 25, 36], [[0], [1, 2, 3, 4], [5, 6]], {}),
        ([0, 1, 2, 3, 4], [1, 4, 9, 16], [[0], [1, 3], [2, 4]], {"alike": of_one_parity}),
        ([0, 1, -2, 3], [1, ValueError, 9], [[0], [1, -2, 3]], {}),
        # The thread that leads the batch with "end" dies of it; the others have their turn.
        ([0, "end", 2, 3], [SystemExit, 4, 9], [[0], ["end", 2, 3], [2, 3]], {}),
    ],
    ids=[
        "in order",
        "only what is alike",
        "an error is that of its request",
        "a thread that ends takes nobody with it",
    ],
)
def test_those_that_come_meanwhile_go_together(batches, requests, outcomes, seen, alike):
    combiner = Coalescer(batches.run, most=4, **alike)
    found = together(combiner, batches, requests)
    assert [type(each) if isinstance(each, BaseException) else each for each in found] == outcomes
    assert batches.seen == seen
    assert combiner.do(7) == 49, "the lead is free again"


def test_a_request_that_waits_too_long_leaves_without_taking_a_turn(batches):
    combiner = Coalescer(batches.run, most=4)
    first = threading.Thread(target=combiner.do, args=(0,))
    first.start()
    assert batches.under_way.wait(PATIENCE_SECONDS)
    with pytest.raises(GivenUpError):
        combiner.do(1, begun_within_seconds=0.001)
    assert combiner.waiting == 0
    batches.go.set()
    first.join(PATIENCE_SECONDS)
    assert combiner.do(2, begun_within_seconds=0.001) == 4
    assert batches.seen == [[0], [2]]


def test_a_ticket_given_up_is_not_begun_and_one_begun_is_waited_for():
    given_up, begun, done = (Ticket(number) for number in range(3))
    assert given_up.give_up()
    assert not given_up.begin()
    with pytest.raises(GivenUpError):
        given_up.outcome()
    assert begun.begin()
    assert not begun.give_up()
    done.begin()
    done.succeed("kept")
    assert done.give_up()
    assert done.outcome() == "kept"
