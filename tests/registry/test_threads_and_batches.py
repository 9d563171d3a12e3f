"""Threads for connections: a few for each key, a limit for all keys together, and reuse of idle ones. Single texts wanted at
the same time go in one call, and each fails only for itself."""

import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest

from providers.outbound import deadlines
from registry.connection_threads import ConnectionThreads
from registry.embedding.batches import MAX_TEXTS, EmbeddingBatches
from schemas.errors import BusyError, InvalidInputError, UnavailableError
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.support.live import PATIENCE_SECONDS, eventually

MODEL = "letters-1"


class Slow(LetterEmbedding):
    """Waits for `gate` in its first call; refuses a text with "bad" in it, and the whole call with it."""

    parallel_calls = 1

    def __init__(self):
        super().__init__()
        self.gate, self.calls, self.threads = threading.Event(), [], []

    def _embed(self, texts):
        self.calls.append(list(texts))
        self.threads.append(threading.current_thread())
        if len(self.calls) == 1:
            self.gate.wait(PATIENCE_SECONDS)
        if any("bad" in text for text in texts):
            raise InvalidInputError("this text is refused")
        return super()._embed(texts)

    def _embed_by(self, model, texts):
        self.calls.append([f"{model}: {text}" for text in texts])
        return super()._embed(texts)


@pytest.fixture
def together():
    """`together(texts)`: embeds them on a thread each while the first text's call still runs."""
    slow = Slow()
    batches = EmbeddingBatches(slow)
    with ThreadPoolExecutor(100) as pool:

        def ask(texts, model_of=lambda text: MODEL):
            first = pool.submit(batches.embed, "first", MODEL)
            eventually(lambda: slow.calls)
            others = [pool.submit(batches.embed, text, model_of(text)) for text in texts]
            eventually(lambda: len(batches.waiting) == len(texts))
            slow.gate.set()
            return slow, first, others

        yield ask


@pytest.mark.parametrize(("count", "calls"), [(10, [1, 10]), (MAX_TEXTS + 5, [1, MAX_TEXTS, 5])])
def test_texts_that_come_while_a_call_runs_go_in_the_next_one_up_to_its_bound(together, count, calls):
    texts = [f"text {number}" for number in range(count)]
    slow, first, others = together(texts)
    vectors = [each.result(PATIENCE_SECONDS) for each in others]
    assert [each.tolist() for each in vectors] == LetterEmbedding().embed(texts).tolist()
    assert first.result(PATIENCE_SECONDS).shape == (26,)
    assert [len(call) for call in slow.calls] == calls


def test_a_text_that_is_refused_costs_the_others_nothing(together):
    _, _, (good, bad, also_good) = together(["good", "bad", "also good"])
    assert good.result(PATIENCE_SECONDS).shape == also_good.result(PATIENCE_SECONDS).shape == (26,)
    with pytest.raises(InvalidInputError, match="refused"):
        bad.result(PATIENCE_SECONDS)


def test_no_caller_waits_beyond_its_deadline():
    slow = Slow()
    batches = EmbeddingBatches(slow)
    with (
        pytest.raises(UnavailableError, match=r"'letters' gave no answer within 0.05 s") as raised,
        deadlines.within(0.05),
    ):
        batches.embed("first", MODEL)
    assert raised.value.code == "embedding_timeout"
    slow.gate.set()
    assert batches.embed("second", MODEL).shape == (26,)


def test_texts_of_one_model_go_together_and_each_gets_the_vector_of_its_own(together):
    slow, first, others = together([f"text {number}" for number in range(6)], lambda text: f"m{int(text[-1]) % 2}")
    assert all(each.result(PATIENCE_SECONDS).shape == (26,) for each in [first, *others])
    assert sorted(len(call) for call in slow.calls) == [1, 3, 3]
    assert all(len({text.partition(":")[0] for text in call}) == 1 for call in slow.calls)


def test_there_is_no_thread_without_a_text_and_a_new_one_with_the_next():
    slow = Slow()
    slow.gate.set()
    EmbeddingBatches(slow).embed("a", MODEL)
    [thread] = slow.threads
    assert thread is not threading.current_thread()
    eventually(lambda: not thread.is_alive())
    batches = EmbeddingBatches(LetterEmbedding())
    assert [batches.embed("a", MODEL).shape for _ in range(3)] == [(26,)] * 3


def test_a_text_that_nobody_waits_for_any_more_is_not_embedded():
    slow = Slow()
    batches = EmbeddingBatches(slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(batches.embed, "first", MODEL)
        eventually(lambda: slow.calls)
        with deadlines.within(0.05), pytest.raises(UnavailableError):
            batches.embed("late", MODEL)
        slow.gate.set()
        first.result(PATIENCE_SECONDS)
    assert batches.embed("next", MODEL).shape == (26,)
    assert slow.calls == [["first"], ["next"]]


@pytest.fixture
def gate():
    gate = threading.Event()
    yield gate
    gate.set()


def test_a_key_that_hangs_holds_up_no_other_and_one_whose_queue_is_full_is_refused(gate):
    threads = ConnectionThreads("test", each=2, most=4)
    stuck = [threads.submit("slow", lambda: gate.wait(PATIENCE_SECONDS)) for _ in range(20)]
    assert [threads.submit("quick", lambda n=n: n).result(PATIENCE_SECONDS) for n in range(20)] == list(range(20))
    assert (threads.threads <= 4, any(each.done() for each in stuck)) == (True, False)
    gate.set()
    assert all(each.result(PATIENCE_SECONDS) for each in stuck)
    threads.close()
    gate.clear()
    threads = ConnectionThreads("test", each=1, queued=2)
    taken = [threads.submit("slow", lambda: gate.wait(PATIENCE_SECONDS)) for _ in range(3)]
    with pytest.raises(BusyError, match="wait for this connection"):
        threads.submit("slow", lambda: None)
    gate.set()
    assert all(each.result(PATIENCE_SECONDS) for each in taken)
    assert threads.submit("slow", lambda: "again").result(PATIENCE_SECONDS) == "again"
    threads.close()


def test_a_thread_takes_one_job_after_the_other_and_an_error_fails_its_own_alone():
    threads = ConnectionThreads("test")
    for number in range(50):
        assert threads.submit(number, lambda number=number: number).result(PATIENCE_SECONDS) == number
    assert threads.threads <= 2  # a result is ready a moment before its thread is idle
    threads.close()
    eventually(lambda: threads.threads == 0)
    threads = ConnectionThreads("test", each=1)
    failing = threads.submit("a", lambda: 1 / 0)
    fine = threads.submit("a", lambda: "fine")
    assert isinstance(failing.exception(PATIENCE_SECONDS), ZeroDivisionError)
    assert fine.result(PATIENCE_SECONDS) == "fine"
    threads.close()


def test_closing_cancels_jobs_that_have_not_begun(gate):
    threads = ConnectionThreads("test", each=1)
    running, waiting = (threads.submit("slow", lambda: gate.wait(PATIENCE_SECONDS)) for _ in range(2))
    eventually(running.running)
    threads.close()
    with pytest.raises(CancelledError):
        waiting.result(PATIENCE_SECONDS)
    with pytest.raises(BusyError, match="closing"):
        threads.submit("slow", lambda: None)
    gate.set()
    assert running.result(PATIENCE_SECONDS)
