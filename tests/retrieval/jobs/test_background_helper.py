"""The process that splits and embeds for jobs."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import numpy as np
import orjson
import pytest

from providers.embeddings.minilm import MiniLMProvider
from retrieval.chunking import Syntax
from retrieval.ingest.profiles import chunking_of
from retrieval.jobs import background_child, background_helper
from retrieval.jobs.background_helper import BackgroundHelper
from retrieval.reading import ReadingLimits, UnreadableError
from retrieval.workers import worker_process
from retrieval.workers.messages import write_messages
from schemas.errors import InvalidInputError, UnavailableError
from schemas.settings import RetrievalSettings
from tests.durability.processes import alive
from tests.support.live import PATIENCE_SECONDS, eventually


@pytest.fixture(scope="module")
def minilm():
    with MiniLMProvider({}) as provider:
        yield provider


@pytest.fixture(scope="module")
def background(tmp_path_factory):
    made = BackgroundHelper(tmp_path_factory.mktemp("data"))
    yield made
    made.close()


@pytest.fixture
def own(tmp_path, minilm):
    """A helper that has embedded something, for one test."""
    made = BackgroundHelper(tmp_path)
    made.embed(minilm, ["one"])
    yield made
    made.close()


@pytest.mark.slow
def test_it_embeds_as_the_connection_would_at_a_low_priority(background, minilm):
    texts = ["Backups run every night.", "Wie lange?", "x" * 5_000]
    assert background.pid is None
    np.testing.assert_allclose(background.embed(minilm, texts), minilm.embed(texts), atol=1e-5)
    lower = min(19, os.getpriority(os.PRIO_PROCESS, 0) + background_child.NICE)
    assert os.getpriority(os.PRIO_PROCESS, background.pid) == lower


@pytest.mark.parametrize("profile", ["sections", "windows", "whole"])
@pytest.mark.parametrize("syntax", list(Syntax))
def test_it_splits_as_the_settings_say(background, minilm, profile, syntax):
    text = "---\n# Café\n\n" + "Words of a long part. " * 400 + "\n\n| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 300
    settings = RetrievalSettings(chunking=profile, chunk_max_tokens=200, chunk_overlap_tokens=50)
    chunking = chunking_of(settings, minilm)
    here = chunking.splitter(syntax)(text)
    there = background.split(chunking, syntax, text)
    assert there.chunks == here.chunks
    assert list(there.warnings) == list(here.warnings)
    assert len(here.chunks) > 1 or profile == "whole"


def test_a_wrong_text_is_refused_as_the_connection_refuses_it(background, minilm):
    with pytest.raises(InvalidInputError) as caught:
        background.embed(minilm, ["good", " "])
    assert caught.value.details["index"] == 1
    assert background.embed(minilm, ["good"]).shape == (1, 384)


@pytest.mark.slow
def test_a_killed_process_is_told_and_replaced(background, minilm):
    background.embed(minilm, ["one"])
    killed = background.pid
    os.kill(killed, signal.SIGSTOP)
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(background.embed, minilm, ["two"])
        os.kill(killed, signal.SIGKILL)
        assert isinstance(asked.exception(timeout=PATIENCE_SECONDS), UnavailableError)
    assert background.embed(minilm, ["three"]).shape == (1, 384)
    assert background.pid != killed


@pytest.mark.slow
def test_it_rests_when_it_is_not_needed_and_does_not_come_back_after_the_end(tmp_path, minilm):
    now = 0.0
    background = BackgroundHelper(tmp_path, clock=lambda: now)
    background.embed(minilm, ["one"])
    pid = background.pid
    now = worker_process.IDLE_SECONDS - 1
    background.rest()
    assert background.pid == pid
    now += 1
    background.rest()
    assert background.pid is None
    assert not alive(pid)
    background.close()
    with pytest.raises(UnavailableError):
        background.embed(minilm, ["two"])


@pytest.mark.slow
def test_it_ends_with_the_process_it_works_for(own):
    own._process.stdin.close()  # as the kernel does when the owner is killed
    eventually(lambda: not alive(own._process.pid))


@pytest.mark.slow
def test_it_ends_quietly_in_its_work_when_nobody_is_left_to_read_its_answer(own, minilm, capfd):
    process = own._process
    chunking = chunking_of(RetrievalSettings(chunking="windows"), minilm)
    rules = {each.name: getattr(chunking, each.name) for each in fields(chunking) if each.name != "embedding"}
    task = {"split": "a word " * 3_000_000, "syntax": Syntax.TEXT.value, "chunking": rules}  # which takes minutes
    write_messages(process.stdin, orjson.dumps(task), b"")
    process.stdout.close()  # as the kernel does when the owner is killed
    assert process.wait(timeout=PATIENCE_SECONDS) == 0
    assert "Error" not in capfd.readouterr().err


@pytest.mark.slow
def test_a_process_that_hangs_is_ended_after_a_while_and_replaced(tmp_path, minilm, monkeypatch):
    background = BackgroundHelper(tmp_path, ReadingLimits(seconds=0.1, seconds_per_mb=0))
    background.embed(minilm, ["one"])
    os.kill(background.pid, signal.SIGSTOP)
    monkeypatch.setattr(background_helper, "EMBED_SECONDS", 0.1)
    with pytest.raises(UnavailableError, match=r"took more than 0\.1 s"):
        background.embed(minilm, ["two"])
    with pytest.raises(UnreadableError, match=r"takes more than 0\.4 seconds to be split"):
        background.split(chunking_of(RetrievalSettings(chunking="windows"), minilm), Syntax.TEXT, "a word " * 300_000)
    background.close()
