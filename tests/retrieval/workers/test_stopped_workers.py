"""A process that works in the background stands still while the service answers a question, and always goes on."""

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from retrieval.workers.stopping import CAN_STOP
from retrieval.workers.worker_process import WorkerProcess
from schemas.giving_way import MOST_SECONDS, QUESTIONS
from tests.durability.processes import alive, children
from tests.support.live import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CAN_STOP, reason="only Linux wakes processes that are left")]

WORKER = """
import json, os, sys, time
from retrieval.workers.messages import read_message, write_messages
from retrieval.workers.stopping import begin_in_background
begin_in_background(0)
while (told := read_message(sys.stdin.buffer)) is not None and read_message(sys.stdin.buffer) is not None:
    parent = os.getppid()
    child = os.fork()
    parent = parent if child else os.getppid()
    while not os.path.exists(json.loads(told)["until"]):
        time.sleep(0.01)
        if os.getppid() != parent:
            os._exit(0)
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    write_messages(sys.stdout.buffer, json.dumps({"child": child}).encode(), b"")
"""
"""It answers when it and its child have found a file, and ends when whoever asks it is gone."""
LEADER = f"""
import sys
from retrieval.workers.worker_process import WorkerProcess
worker = WorkerProcess("The worker", ["-c", {WORKER!r}])
worker.ask({{"until": "/"}}, seconds=60)
print(worker.pid, flush=True)
from tests.retrieval.workers.test_stopped_workers import asked
with asked():
    worker.ask({{"until": sys.argv[1]}}, seconds=60)
"""


@contextmanager
def asked():
    """Have one question after the other under way."""
    over = threading.Event()

    def ask():
        while not over.is_set():
            with QUESTIONS.answering():
                over.wait(MOST_SECONDS / 2)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def is_stopped(process):
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("is_apart", [False, True])
def test_it_stands_still_while_a_question_is_answered_and_then_goes_on(tmp_path, is_apart):
    with ExitStack() as stack:
        worker = WorkerProcess("The worker", ["-c", WORKER], is_apart=is_apart)
        stack.callback(worker.close)
        thread = stack.enter_context(ThreadPoolExecutor(1))
        worker.ask({"until": "/"}, seconds=PATIENCE_SECONDS)
        answer = thread.submit(worker.ask, {"until": str(tmp_path / "now")}, seconds=PATIENCE_SECONDS)
        stack.callback((tmp_path / "now").touch)
        (child,) = eventually(lambda: children(worker.pid))
        with asked():
            eventually(lambda: is_stopped(worker.pid) and is_stopped(child) == is_apart)
        eventually(lambda: not is_stopped(worker.pid) and not is_stopped(child))
        (tmp_path / "now").touch()
        assert answer.result()[0] == {"child": child}


def test_one_that_hangs_is_ended_while_it_stands_still(tmp_path):
    worker = WorkerProcess("The worker", ["-c", WORKER])
    with ThreadPoolExecutor(1) as thread, asked():
        worker.ask({"until": "/"}, seconds=PATIENCE_SECONDS)
        thread.submit(worker.ask, {"until": str(tmp_path / "never")}, seconds=PATIENCE_SECONDS)
        process = worker.pid
        eventually(lambda: is_stopped(process))
        worker.close()
    assert not alive(process)


def test_one_that_is_left_standing_still_ends(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", LEADER, str(tmp_path / "never")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as leader:
        worker = int(leader.stdout.readline())
        eventually(lambda: is_stopped(worker))
        leader.send_signal(signal.SIGKILL)
    eventually(lambda: not alive(worker))
