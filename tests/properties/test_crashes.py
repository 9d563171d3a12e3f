"""A process that dies between any two steps of a write leaves whole requests or nothing.

The next process makes the engine equal to the catalogue, and a client that repeats unanswered writes has each once.
"""

import copy
import shutil
import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.consistency import catalog_state, check_engine, check_tables, model_state
from tests.properties.fake_engine import FakeEngine
from tests.properties.operations import STORIES
from tests.properties.processes import STEP, Crash, Process, Steps
from tests.properties.stories import STORY, Client


def _states(story):
    """Return (the model's states before the first operation and after each, the expected answers)."""
    model, states, answers = {}, [model_state({})], []
    for operation in story:
        answers.append(operation.apply(model))
        states.append(copy.deepcopy(model_state(model)))
    return states, answers


@pytest.fixture(scope="module")
def new_catalog(tmp_path_factory):
    """`new_catalog(directory)` makes a directory with an empty catalogue, copied because creating one takes longer."""
    template = tmp_path_factory.mktemp("template")
    Process(template, FakeEngine()).close()

    def make(directory):
        shutil.copytree(template, directory)
        return directory

    return make


def _check_recovery(directory, story, crashes, *, drains):
    """Run a story through crashes, given as step numbers of successive processes; return whether one happened."""
    states, answers = _states(story)
    engine, client, died = FakeEngine(), Client(), False
    path = directory / "catalog.sqlite"

    def is_whole():
        return catalog_state(path) in states[client.done : client.done + 2]

    for crash_at in [*crashes, None]:
        process = Process(directory, engine, Steps(crash_at))
        try:
            process.lead()
            process.drain()
            if died:
                check_engine(path, engine)
                assert is_whole()
            client.work(process, story, drains=drains)
            process.drain()
        except Crash:
            died = True
        finally:
            process.close()
        assert is_whole()
        check_tables(path)
        if not died:
            break
    assert (client.done, client.answers) == (len(story), answers)
    assert catalog_state(path) == states[-1]
    check_engine(path, engine)
    return died


@pytest.mark.slow
@pytest.mark.parametrize("drains", ["always", "never"])
def test_a_crash_at_any_step_of_a_story_leaves_whole_requests(tmp_path, new_catalog, drains):
    """At every seventh step, at others for each way to drain; `make soak` takes each."""
    for crash_at in count(3 * (drains == "never") % STEP, STEP):
        directory = new_catalog(tmp_path / str(crash_at))
        if not _check_recovery(directory, STORY, [crash_at], drains=drains):
            break
        shutil.rmtree(directory)
    assert crash_at > 100


@pytest.mark.slow
def test_a_crash_at_any_statement_of_a_write_leaves_whole_requests(tmp_path, new_catalog):
    states, _ = _states(STORY)
    before = new_catalog(tmp_path / "before")
    for number, operation in enumerate(STORY):
        for crash_at in count(number % STEP, STEP):
            directory = tmp_path / f"{number}-{crash_at}"
            shutil.copytree(before, directory)
            process = Process(directory, FakeEngine(), Steps(crash_at, statements=True))
            try:
                operation.run(process.store, key=f"write-{number}")
                break
            except Crash as crash:
                committed = str(crash) == "after commit"
            finally:
                process.close()
            assert catalog_state(process.path) == states[number + committed]
            check_tables(process.path)
            shutil.rmtree(directory)
        assert crash_at > 5
        before = directory


@pytest.mark.slow
@given(
    STORIES, st.lists(st.integers(0, 120), min_size=1, max_size=3), st.sampled_from(("always", "never", "sometimes"))
)
def test_crashes_of_generated_stories_leave_whole_requests(new_catalog, story, crashes, drains):
    with tempfile.TemporaryDirectory() as directory:
        _check_recovery(new_catalog(Path(directory, "catalog")), story, crashes, drains=drains)


def test_the_story_has_every_kind_of_write():
    assert {each.kind for each in STORY} == {
        "create", "add", "patch", "delete", "delete_where", "change", "empty", "drop"
    }  # fmt: skip
    assert None not in _states(STORY)[1]
