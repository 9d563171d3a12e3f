"""Requests of many threads in one batch, whatever happens to the thread that leads."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.live import PATIENCE_SECONDS, eventually
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
    with ThreadPoolExecutor(len(requests)) as threads:
        asked = [threads.submit(combiner.do, requests[0])]
        assert batches.under_way.wait(PATIENCE_SECONDS)
        for waiting, request in enumerate(requests[1:]):
            asked.append(threads.submit(combiner.do, request))
            eventually(lambda waiting=waiting: combiner.waiting > waiting)
        batches.go.set()
        return [each.exception(PATIENCE_SECONDS) or each.result() for each in asked[1:]]


@pytest.fixture
def batches():
    return Batches()


def test_those_that_come_meanwhile_go_together_in_order_and_one_alone_is_done_at_once(batches):
    combiner = Coalescer(batches.run, most=4)
    assert together(combiner, batches, [0, 1, 2, 3, 4, 5, 6]) == [1, 4, 9, 16, 25, 36]
    assert [combiner.do(number) for number in (2, 3)] == [4, 9]
    assert batches.seen == [[0], [1, 2, 3, 4], [5, 6], [2], [3]]


def test_only_what_is_alike_goes_together(batches):
    combiner = Coalescer(batches.run, most=4, alike=lambda one, other: one % 2 == other % 2)
    assert together(combiner, batches, [0, 1, 2, 3, 4]) == [1, 4, 9, 16]
    assert batches.seen == [[0], [1, 3], [2, 4]]


def test_an_error_is_that_of_its_request(batches):
    outcomes = together(Coalescer(batches.run, most=4), batches, [0, 1, -2, 3])
    assert outcomes[0::2] == [1, 9]
    assert isinstance(outcomes[1], ValueError)


def test_a_thread_that_is_ended_takes_nobody_with_it(batches):
    # The thread that leads the batch with "end" dies of it; the others have their turn.
    outcomes = together(Coalescer(batches.run, most=4), batches, [0, "end", 2, 3])
    assert isinstance(outcomes[0], SystemExit)
    assert outcomes[1:] == [4, 9]
    assert batches.seen == [[0], ["end", 2, 3], [2, 3]]


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
