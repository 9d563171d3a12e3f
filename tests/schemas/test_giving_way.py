"""Work in the background lets questions pass, but is never kept from working for long."""

import os
import signal

import pytest

from schemas.giving_way import LOOK_SECONDS, MOST_SECONDS, Questions
from tests.support.live import PATIENCE_SECONDS

QUESTION_SECONDS = 0.03


class Time:
    """A clock that moves when somebody sleeps, and tells `each` then."""

    def __init__(self):
        self.now, self.each = 1_000.0, lambda: None

    def __call__(self):
        return self.now

    def pass_by(self, seconds):
        self.now += seconds
        self.each()


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def questions(time):
    return Questions(time, time.pass_by)


def waited(time, work):
    before = time.now
    work()
    return pytest.approx(time.now - before, abs=LOOK_SECONDS)


def test_what_works_in_the_background_waits_until_a_question_is_answered(time, questions):
    with questions.given_way():
        time.now += MOST_SECONDS  # as it works
        assert waited(time, questions.let_pass) == 0
        question = questions.answering()
        question.__enter__()
        ends_at = time.now + QUESTION_SECONDS
        time.each = lambda: time.now >= ends_at and questions.are_under_way() and question.__exit__(None, None, None)
        assert waited(time, questions.let_pass) == QUESTION_SECONDS
        assert waited(time, questions.let_pass) == 0


def test_a_question_that_hangs_is_waited_for_once_and_hides_no_other(time, questions):
    with questions.given_way():
        time.now += MOST_SECONDS
        with questions.answering():
            assert waited(time, questions.let_pass) == MOST_SECONDS
            time.now += 10
            assert waited(time, questions.let_pass) == 0
            with questions.answering():
                assert waited(time, questions.let_pass) == MOST_SECONDS


def test_who_has_not_worked_yet_waits_for_nobody(time, questions):
    with questions.answering():
        for _ in range(9):
            with questions.given_way():
                assert waited(time, questions.let_pass) == 0


def test_work_beside_one_question_after_the_other_has_half_of_the_time(time, questions):
    asked = [questions.answering()]
    asked[0].__enter__()
    until = time.now + QUESTION_SECONDS

    def ask_again():
        nonlocal until
        if time.now >= until:
            asked.pop().__exit__(None, None, None)
            asked.append(questions.answering())
            asked[0].__enter__()
            until = time.now + QUESTION_SECONDS

    time.each = ask_again
    began, worked = time.now, 0.0
    with questions.given_way():
        while time.now < began + 10:
            questions.let_pass()
            time.pass_by(0.001)
            worked += 0.001
    assert 4.5 < worked < 6


def test_who_works_for_somebody_that_waits_waits_for_no_question(time, questions):
    with questions.answering():
        assert waited(time, questions.let_pass) == 0


@pytest.mark.slow
def test_questions_of_a_process_of_the_same_service_count_until_it_is_killed(time, questions):
    """`questions` was made before the fork, as that of a service is."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with questions.answering():
            signal.alarm(int(PATIENCE_SECONDS))  # if nobody is left to kill it
            os.write(writing, b"x")
            signal.pause()
    try:
        os.read(reading, 1)
        assert questions.are_under_way()
        with questions.answering():
            pass
        assert questions.are_under_way()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for end in (reading, writing):
            os.close(end)
    time.now += MOST_SECONDS
    assert not questions.are_under_way()
