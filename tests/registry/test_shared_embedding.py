"""One embedding for all callers with the same text, in a thread, in threads, in processes; one call for texts wanted at the
same time, in which each fails only for itself; and threads for connections: a few for each key, a limit for all keys
together, and reuse of idle ones."""

import shutil
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor

import numpy as np
import pytest

from providers.embeddings.base import UnusableVectorError
from providers.outbound import deadlines
from providers.outbound.refusals import RefusedTextsError
from registry.connection_threads import ConnectionThreads
from registry.embedding import cache as embedding_cache
from registry.embedding.batches import MAX_TEXTS, EmbeddingBatches
from registry.embedding.cache import EmbeddingCache, EmbeddingKey
from registry.embedding.shared_files import MAX_FILES, VectorFiles
from schemas.errors import (
    BusyError,
    ClientGoneError,
    InvalidInputError,
    NoThreadError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from schemas.storage import read_limits
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.support.live import PATIENCE_SECONDS, eventually, no_thread_begins

KEY = EmbeddingKey("default", "configuration", "all-MiniLM-L6-v2", "how to rotate keys")
VECTOR = np.array([0.6, 0.8], dtype=np.float32)


class Maker:
    """Counts its calls; `gate` holds every call up until it is set."""

    def __init__(self, gate=None):
        self.calls = 0
        self._gate = gate

    def __call__(self):
        self.calls += 1
        if self._gate is not None:
            assert self._gate.wait(PATIENCE_SECONDS)
        return VECTOR


@pytest.mark.parametrize(
    "other",
    [
        *(KEY._replace(**{name: "another"}) for name in ("connection_id", "made_by", "model", "text", "view")),
        KEY._replace(text="how to rotate keys "),
    ],
)
def test_the_second_question_is_answered_from_the_cache_unless_it_is_another_embedding(other):
    cache, make = EmbeddingCache(ttl_seconds=60), Maker()
    (first, made_first), (second, made_second) = cache.get(KEY, make), cache.get(KEY, make)
    assert (made_first, made_second, make.calls) == (True, False, 1)
    np.testing.assert_array_equal(first, second)
    assert cache.get(other, make)[1]
    assert make.calls == 2
    assert KEY.name == "default:all-MiniLM-L6-v2"


def test_eight_simultaneous_callers_make_one_call():
    gate = threading.Event()
    cache, make = EmbeddingCache(ttl_seconds=60), Maker(gate)
    together = threading.Barrier(9)

    def ask():
        together.wait()
        return cache.get(KEY, make)

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask) for _ in range(8)]
        together.wait()
        gate.set()
        answers = [each.result() for each in asked]
    assert make.calls == 1
    assert sum(made for _, made in answers) == 1


def test_a_failure_reaches_every_waiter_and_is_not_cached():
    cache = EmbeddingCache(ttl_seconds=60)

    def fail():
        raise UnavailableError("the embedding service does not answer")

    with pytest.raises(UnavailableError):
        cache.get(KEY, fail)
    assert cache.get(KEY, Maker())[1]


@pytest.mark.parametrize(
    "refusal",
    [
        UnauthorizedError("the key was revoked"),
        TooManyRequestsError("enough for today", retry_after_seconds=60, limit="embedded_tokens_per_day"),
        ClientGoneError(),
    ],
    ids=lambda refusal: type(refusal).__name__,
)
def test_what_another_caller_is_refused_for_reaches_no_waiter(refusal, monkeypatch):
    cache, make, is_waiting = EmbeddingCache(ttl_seconds=60), Maker(), threading.Event()
    result = embedding_cache._result
    monkeypatch.setattr(embedding_cache, "_result", lambda waiting: (is_waiting.set(), result(waiting))[1])
    with ThreadPoolExecutor(1) as pool:
        waits = []

        def refuse():
            waits.append(pool.submit(cache.get, KEY, make))
            assert is_waiting.wait(PATIENCE_SECONDS)
            raise refusal

        with pytest.raises(type(refusal)):
            cache.get(KEY, refuse)
        assert waits[0].result()[1]
    assert make.calls == 1


def test_an_embedding_is_forgotten_after_its_time_or_for_too_many_others(clock):
    make = Maker()
    cache = EmbeddingCache(ttl_seconds=60, clock=clock)
    cache.get(KEY, make)
    clock.now += 59
    assert not cache.get(KEY, make)[1]
    clock.now += 2
    assert cache.get(KEY, make)[1]
    cache, make = EmbeddingCache(ttl_seconds=60, max_entries=2), Maker()
    for text in ("a", "b", "c"):
        cache.get(KEY._replace(text=text), make)
    assert cache.get(KEY._replace(text="a"), make)[1]


def test_another_worker_finds_what_this_one_made_and_a_directory_that_cannot_be_written_shares_nothing(tmp_path):
    ours = EmbeddingCache(VectorFiles(tmp_path, ttl_seconds=60), ttl_seconds=60)
    theirs = EmbeddingCache(VectorFiles(tmp_path, ttl_seconds=60), ttl_seconds=60)
    make = Maker()
    ours.get(KEY, make)
    found, made = theirs.get(KEY, make)
    assert (made, make.calls) == (False, 1)
    np.testing.assert_array_equal(found, VECTOR)
    (tmp_path / "file").write_text("in the way")
    cache = EmbeddingCache(VectorFiles(tmp_path / "file", ttl_seconds=60), ttl_seconds=60)
    assert cache.get(KEY, Maker())[1]


PROGRAM = """
import sys, pathlib
import numpy as np
from registry.embedding import cache as embedding_cache
from registry.embedding.cache import EmbeddingCache, EmbeddingKey
from registry.embedding.shared_files import VectorFiles

calls = pathlib.Path(sys.argv[1])
def make():
    with calls.open("a") as file:
        file.write("called\\n")
    return np.ones(4, dtype=np.float32)

print("ready", flush=True)
sys.stdin.readline()
files = VectorFiles(pathlib.Path(sys.argv[2]), ttl_seconds=60)
EmbeddingCache(files, ttl_seconds=60).get(EmbeddingKey("c", "f", "m", "t"), make)
"""


@pytest.mark.slow
def test_processes_that_ask_at_once_make_one_call(tmp_path):
    calls = tmp_path / "calls"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, calls, tmp_path / "vectors"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.close()
    for process in processes:
        assert process.wait(PATIENCE_SECONDS) == 0
        process.stdout.close()
    assert calls.read_text() == "called\n"


def test_files_older_than_their_time_and_torn_ones_are_not_found_and_the_directory_is_made_again(tmp_path, clock):
    files = VectorFiles(tmp_path, ttl_seconds=60, clock=clock)
    files.keep("0" * 64, VECTOR, since=files.cleared_at())
    assert files.find("0" * 64) is not None
    clock.now += 61
    assert files.find("0" * 64) is None
    files.keep("1" * 64, VECTOR, since=files.cleared_at())
    assert [each.name for each in tmp_path.iterdir()] == ["1" * 64 + ".f32"]
    for content in (b"", b"abc"):
        (tmp_path / ("1" * 64 + ".f32")).write_bytes(content)
        assert files.find("1" * 64) is None, "a torn one"
    for digest in ("2" * 64, "3" * 64):
        files.keep(digest, VECTOR, since=files.cleared_at())
        assert files.find(digest) is not None, "also where the directory was deleted"
        shutil.rmtree(tmp_path)


def test_there_are_never_many_more_files_than_allowed(tmp_path, monkeypatch, clock):
    monkeypatch.setattr("registry.embedding.shared_files.MAX_FILES", 3)
    assert MAX_FILES > 3
    files = VectorFiles(tmp_path, ttl_seconds=10_000, clock=clock)
    for number in range(6):
        clock.now += 61
        files.keep(f"{number:064d}", VECTOR, since=files.cleared_at())
    assert sorted(each.name[63] for each in tmp_path.iterdir()) == ["3", "4", "5"]


def test_a_vector_that_is_being_made_when_all_are_removed_is_not_kept(tmp_path):
    files = VectorFiles(tmp_path, ttl_seconds=60)
    cache = EmbeddingCache(files, ttl_seconds=60)

    def make():
        files.clear()
        return VECTOR

    cache.get(KEY, make)
    assert list(tmp_path.glob("*.f32")) == []
    cache.get(KEY._replace(text="new"), Maker())
    assert len(list(tmp_path.glob("*.f32"))) == 1


MODEL = "letters-1"


class Slow(LetterEmbedding):
    """Waits for `gate` in its first call; refuses a text with "bad" in it, and the whole call with it."""

    parallel_calls = 1

    def __init__(self):
        super().__init__()
        self.gate, self.calls, self.threads, self.failure = threading.Event(), [], [], None

    def _embed(self, texts):
        self.calls.append(list(texts))
        self.threads.append(threading.current_thread())
        if len(self.calls) == 1:
            self.gate.wait(PATIENCE_SECONDS)
        if self.failure is not None:
            raise self.failure
        if any("bad" in text for text in texts):
            raise InvalidInputError("this text is refused")
        if "spoilt" in texts:
            raise UnusableVectorError("spoilt", "NaN").among(texts)
        if "long" in texts:
            refused = {texts.index("long"): InvalidInputError("this text is refused as too long", status=400)}
            raise RefusedTextsError(texts, refused, {at: VECTOR for at, text in enumerate(texts) if text != "long"})
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

        ask.slow = slow
        yield ask


@pytest.mark.parametrize(("count", "calls"), [(10, [1, 10]), (MAX_TEXTS + 5, [1, MAX_TEXTS, 5])])
def test_texts_that_come_while_a_call_runs_go_in_the_next_one_up_to_its_bound(together, count, calls):
    texts = [f"text {number}" for number in range(count)]
    slow, first, others = together(texts)
    vectors = [each.result(PATIENCE_SECONDS) for each in others]
    assert [each.tolist() for each in vectors] == LetterEmbedding().embed(texts).tolist()
    assert first.result(PATIENCE_SECONDS).shape == (26,)
    assert [len(call) for call in slow.calls] == calls


@pytest.mark.parametrize(("word", "said"), [("bad", "refused"), ("spoilt", r"^NaN for texts\[0\], .* “spoilt”$")])
def test_a_text_that_is_refused_or_has_no_vector_costs_the_others_nothing(together, word, said):
    _, _, (good, bad, also_good) = together(["good", word, "also good"])
    assert good.result(PATIENCE_SECONDS).shape == also_good.result(PATIENCE_SECONDS).shape == (26,)
    with pytest.raises((InvalidInputError, UnavailableError), match=said):
        bad.result(PATIENCE_SECONDS)


def test_a_text_that_the_provider_tells_apart_is_told_to_its_caller_alone_without_another_call(together):
    slow, _, (good, bad) = together(["good", "long"])
    assert good.result(PATIENCE_SECONDS) is VECTOR
    with pytest.raises(InvalidInputError, match="too long"):
        bad.result(PATIENCE_SECONDS)
    assert slow.calls == [["first"], ["good", "long"]]
    with pytest.raises(InvalidInputError, match="blank"):  # before it can fail others
        EmbeddingBatches(slow).embed(" ", MODEL)


@pytest.mark.parametrize(
    "failure",
    [
        UnavailableError("the service failed (HTTP 429)", status=429),
        InvalidInputError("the request is refused, whatever the text", status=400),
    ],
)
def test_a_call_that_fails_as_a_whole_is_made_once_for_all_its_texts(together, failure):
    together.slow.failure = failure
    slow, first, others = together([f"text {number}" for number in range(MAX_TEXTS)])
    assert {each.exception(PATIENCE_SECONDS) for each in [first, *others]} == {failure}
    assert [len(call) for call in slow.calls] == [1, MAX_TEXTS]


def test_texts_of_one_model_go_together_and_each_gets_the_vector_of_its_own(together):
    slow, first, others = together([f"text {number}" for number in range(6)], lambda text: f"m{int(text[-1]) % 2}")
    assert all(each.result(PATIENCE_SECONDS).shape == (26,) for each in [first, *others])
    assert sorted(len(call) for call in slow.calls) == [1, 3, 3]
    assert all(len({text.partition(":")[0] for text in call}) == 1 for call in slow.calls)


def test_there_is_no_thread_without_a_text_and_a_new_one_with_the_next():
    slow = Slow()
    batches = EmbeddingBatches(slow)
    with no_thread_begins(), pytest.raises(NoThreadError):
        batches.embed("never", MODEL)
    slow.gate.set()
    with deadlines.within(PATIENCE_SECONDS):
        batches.embed("a", MODEL)
    assert slow.calls == [["a"]]
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
        with (
            deadlines.within(0.05),
            pytest.raises(UnavailableError, match=r"'letters' gave no answer within 0.05 s") as late,
        ):
            batches.embed("late", MODEL)
        assert late.value.code == "embedding_timeout"
        slow.gate.set()
        first.result(PATIENCE_SECONDS)
    assert batches.embed("next", MODEL).shape == (26,)
    assert slow.calls == [["first"], ["next"]]


def test_a_call_ends_when_the_last_of_those_who_wait_for_it_has_left(monkeypatch):
    monkeypatch.setattr(read_limits, "LOOK_SECONDS", 0.001)

    class Hanging(LetterEmbedding):
        parallel_calls = 1

        def _embed(self, texts):
            calls.append(texts)
            if "gone" in texts and "good" not in texts:
                eventually(lambda: not deadlines.seconds_left())
            elif "gone" in texts:
                gone.set()
                assert isinstance(left[-1].exception(PATIENCE_SECONDS), ClientGoneError)
                assert deadlines.seconds_left()
            return super()._embed(texts)

    def asked(text, has_left):
        with read_limits.limited(read_limits.ReadLimit(9.0, has_left)):
            left.append(threads.submit("question", lambda: batches.embed(text, MODEL)))
        return left[-1]

    calls, left, gone, threads = [], [], threading.Event(), ConnectionThreads("test")
    batches = EmbeddingBatches(Hanging())
    first = asked("gone", lambda: bool(calls) and len(batches.waiting) == 2)
    eventually(lambda: calls)
    good, _ = asked("good", lambda: False), asked("gone", gone.is_set)
    assert isinstance(first.exception(PATIENCE_SECONDS), ClientGoneError)
    assert (good.result(PATIENCE_SECONDS).shape, sorted(map(sorted, calls))) == ((26,), [["gone"], ["gone", "good"]])
    threads.close()


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
    threads = ConnectionThreads("test", each=1, most=1)
    with no_thread_begins(), pytest.raises(NoThreadError):
        threads.submit("a", lambda: "never")
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
