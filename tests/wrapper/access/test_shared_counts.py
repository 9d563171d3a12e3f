"""What the workers of a service count together, by processes as workers are: forked, and killed."""

import os
import signal
import warnings
from contextlib import contextmanager, suppress

import pytest

from wrapper.access import shared_counts
from wrapper.access.shared_counts import FILE_BYTES, SETS, WAYS, SharedCounts


@contextmanager
def workers(number, work):
    """Run `work(send, wait)` in so many processes, which have ended at the end of the block.

    Give each of them as (its id, a function that returns the next line it sent, one that ends its next `wait`).
    """
    started, opened = [], []
    try:
        for _ in range(number):
            worker, close = _forked(work)
            started.append(worker)
            opened.append(close)
        yield started
    finally:
        for child, _, _ in started:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        for close in opened:
            close()


def _forked(work):
    from_child, to_parent = os.pipe()
    from_parent, to_child = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child takes no lock of other threads of the tests
        child = os.fork()
    if child == 0:
        try:
            work(lambda said: os.write(to_parent, f"{said}\n".encode()), lambda: os.read(from_parent, 1))
        finally:
            os._exit(0)
    os.close(to_parent)
    os.close(from_parent)
    lines = os.fdopen(from_child)

    def close():
        lines.close()
        os.close(to_child)

    return (child, lambda: lines.readline().strip(), lambda: os.write(to_child, b".")), close


@pytest.fixture
def path(tmp_path):
    return tmp_path / "limits.counts"


def test_of_workers_that_start_at_once_one_lays_the_file_out_and_the_others_wait(path, monkeypatch):
    monkeypatch.setattr(shared_counts, "TURN_SECONDS", 0.0)
    lay_out = shared_counts._lay_out

    def work(send, wait):
        def laying_out(file):
            if os.fstat(file).st_size == 0:
                send("lays it out")
                wait()
            lay_out(file)

        shared_counts._lay_out = laying_out
        send("starts")
        counts = SharedCounts(path)
        counts.begin("a", 2)
        send("counts")
        wait()

    with workers(1, work) as [(_, first_says, go_on)]:
        assert [first_says(), first_says()] == ["starts", "lays it out"]
        with workers(1, work) as [(_, second_says, _)]:
            assert second_says() == "starts"
            go_on()
            assert [first_says(), second_says()] == ["counts", "counts"]
            assert SharedCounts(path).under_way("a") == 2


@pytest.fixture
def counts(path, clock):
    opened = SharedCounts(path, clock)
    yield opened
    opened.close()


def test_the_mean_is_never_exceeded_however_requests_come(counts, clock):
    taken = 0
    for _ in range(10_000):
        clock.now += 0.01
        taken += counts.spend("a", 1, most=5, seconds=1.0)
    assert 500 <= taken <= 505


@pytest.mark.slow
def test_more_callers_than_places_take_no_more_memory(counts, path):
    for number in range(2 * SETS * WAYS):
        counts.spend(f"key:{number}", 1, most=1, seconds=60.0)
    assert path.stat().st_size == FILE_BYTES
    assert not all(counts.spend(f"key:{number}", 1, most=1, seconds=60.0) for number in range(2 * SETS * WAYS))


def test_a_clock_that_begins_anew_keeps_nobody_out(counts, clock):
    assert counts.spend("a", 1, most=1, seconds=60.0)
    clock.now = 5.0  # the machine was started again
    assert counts.spend("a", 1, most=1, seconds=60.0)
    assert not counts.spend("a", 1, most=1, seconds=60.0)


def test_four_processes_have_one_limit_and_count_what_is_under_way_together(path, clock):
    def work(send, wait):
        mine = SharedCounts(path, clock)
        send("ready")
        wait()
        send(sum(mine.spend("a", 1, most=1_000, seconds=60.0) for _ in range(600)))
        wait()
        send(sum(mine.begin("a", 10) is not None for _ in range(5)))
        wait()
        mine.end("a")
        send("ended")
        wait()

    def next_lines(started):
        for _, _, go_on in started:
            go_on()
        return [int(read()) for _, read, _ in started]

    with workers(4, work) as started:
        assert [read() for _, read, _ in started] == ["ready"] * 4
        taken = next_lines(started)
        assert sum(taken) == 1_000
        assert sum(number > 0 for number in taken) > 1  # else nobody had to share
        held = next_lines(started)
        assert sum(held) == 10
        _, read, go_on = started[max(range(4), key=held.__getitem__)]
        go_on()
        assert read() == "ended"
        mine = SharedCounts(path, clock)
        assert [mine.begin("a", 10), mine.begin("a", 10)] == [9, None]
        mine.close()


def test_what_a_process_holds_it_keeps_while_it_is_stopped_and_gives_back_when_it_is_killed(path, counts):
    def work(send, wait):
        mine = SharedCounts(path)
        send(mine.begin("a", 2))
        send(mine.begin("a", 2))
        wait()

    with workers(1, work) as [(child, read, _)]:
        assert [read(), read()] == ["0", "1"]
        os.kill(child, signal.SIGSTOP)
        assert counts.begin("a", 2) is None
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert counts.begin("a", 2) == 0


def test_a_process_takes_a_part_whose_owner_has_ended_and_begins_with_nothing(path, counts):
    def work(send, wait):
        send(SharedCounts(path).begin("a", 5))

    for _ in range(3):
        with workers(1, work) as [(child, read, _)]:
            assert read() == "0"
            os.waitpid(child, 0)
    assert counts.begin("a", 5) in (0, 1)
    assert counts.under_way("a") <= 2


def test_a_file_of_another_layout_is_made_anew_and_without_one_a_process_counts_for_itself(path, tmp_path, clock):
    path.write_bytes(b"\xff" * FILE_BYTES)
    for place in (path, tmp_path / "missing" / "limits.counts"):
        counts = SharedCounts(place, clock)
        assert [counts.spend("a", 1, most=1, seconds=1.0) for _ in range(2)] == [True, False], place
        assert [counts.begin("a", 1), counts.begin("a", 1)] == [0, None], place
        counts.close()


def test_ending_more_than_was_begun_counts_nothing_below_zero(counts):
    counts.end("a")
    assert counts.begin("a", 1) == 0
    counts.end("a")
    counts.end("a")
    assert counts.begin("a", 1) == 0
    assert counts.begin("a", 1) is None
