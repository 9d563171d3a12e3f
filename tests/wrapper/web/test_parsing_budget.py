"""JSON is measured before it is parsed, and no more is parsed at a time than there is memory for."""

import random
import threading

import orjson
import pytest

from schemas.errors import BusyError, PayloadTooLargeError
from tests.support.live import PATIENCE_SECONDS, eventually
from wrapper.web import parsing_budget
from wrapper.web.parsing_budget import BLOCK_BYTES, MAX_VALUES, ParsingBudget, count_values, parsed_bytes

STRINGS = ["", "a", '"', "\\", '\\"', "{[", '{"a": [1]}', "é\n\u2028", '\\\\"[', "x" * 5]


def _counted(value):
    if isinstance(value, dict):
        return 1 + len(value) + sum(map(_counted, value.values()))
    if isinstance(value, list):
        return 1 + sum(map(_counted, value))
    return int(isinstance(value, str))


def _made(chance, depth=0):
    kind = chance.random()
    if depth > 4 or kind < 0.3:
        return chance.choice([*STRINGS, 1, 2.5, None, True])
    if kind < 0.6:
        return [_made(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {chance.choice(STRINGS): _made(chance, depth + 1) for _ in range(3)}


@pytest.mark.slow
@pytest.mark.parametrize("scanned_bytes", [1, 3, 1 << 20])
def test_values_are_counted_as_a_parser_would(monkeypatch, scanned_bytes):
    monkeypatch.setattr(parsing_budget, "SCANNED_BYTES", scanned_bytes)
    chance = random.Random(scanned_bytes)
    for _ in range(300):
        value = _made(chance)
        assert count_values(orjson.dumps(value)) == _counted(value), value


@pytest.mark.parametrize("repeated", [b"{},", b"[],", b'"ab",', b'{"a":1},', b'[[""]],'])
def test_json_that_becomes_too_much_is_refused_before_it_is_parsed(repeated):
    with pytest.raises(PayloadTooLargeError) as refused:
        parsed_bytes(b'{"documents":[' + repeated * MAX_VALUES + b"1]}")
    assert refused.value.details == {"limit": MAX_VALUES}


def test_a_body_that_does_not_fit_in_waits_its_turn():
    budget = ParsingBudget(1_000_000)
    large, small = b" " * 700_000, b" " * 300_000
    came = []
    gate = threading.Event()

    def parse(name, content):
        with budget.room_for(content):
            came.append(name)
            gate.wait(PATIENCE_SECONDS)

    with budget.room_for(large):
        first = threading.Thread(target=parse, args=("large", large))
        first.start()
        eventually(budget._turn.locked)
        second = threading.Thread(target=parse, args=("small", small))
        second.start()
        with budget.room_for(b"{}"):  # too small to be worth measuring, so it never waits
            assert came == []
    eventually(lambda: came == ["large", "small"])
    gate.set()
    first.join()
    second.join()


@pytest.mark.parametrize(
    ("first", "waiting"), [(100_000, 100_000), (200_000, 70_000)], ids=["as large as the budget", "larger"]
)
def test_a_body_that_waits_too_long_for_room_is_refused(first, waiting):
    budget = ParsingBudget(100_000)
    with budget.room_for(b" " * first), pytest.raises(BusyError), budget.room_for(b" " * waiting, wait_seconds=0):
        pass
    with budget.room_for(b" " * waiting, wait_seconds=0):
        pass


def test_of_bodies_that_arrive_the_first_goes_on_and_others_wait_for_what_they_hold():
    budget = parsing_budget.ArrivingBudget(3 * BLOCK_BYTES)
    done = threading.Event()

    def arrive():
        with budget.body() as grow_to:
            grow_to(3 * BLOCK_BYTES)
            done.set()

    with budget.body() as first, budget.body(wait_seconds=0) as second:
        second(BLOCK_BYTES)  # too small to be counted
        first(3 * BLOCK_BYTES)
        with pytest.raises(BusyError):
            second(3 * BLOCK_BYTES)
        first(9 * BLOCK_BYTES)  # although there is no room: else all could wait for one another
        third = threading.Thread(target=arrive)
        third.start()
        eventually(lambda: budget._changed._waiters)
        assert not done.is_set()
    assert done.wait(PATIENCE_SECONDS)
    third.join()
    assert (budget._taken_bytes, budget._taken) == (0, {})
