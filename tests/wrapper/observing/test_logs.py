"""Every line that a process writes, and a service from its first to its last, is one of the log, with the same first fields;
no key is in it."""

import os
import re
import signal
import socket
import subprocess
import sys

import orjson
import pytest

from schemas.access.credentials_in_text import CUT
from tests.support.live import PATIENCE_SECONDS, command, eventually, live_service, refused_start
from wrapper.observing.captured_lines import MAX_EVENT_CHARACTERS

KEY = "rw_ab12cd34_" + "s" * 43


def lines_of(text):
    lines = [orjson.loads(line) for line in text.splitlines()]
    for line in lines:
        assert list(line)[:4] == ["timestamp", "level", "logger", "event"], line
    return lines


TRACEBACKS = """
import structlog
from wrapper.observing.logs import clean_lines, configure
configure("info", "{style}")
log = structlog.get_logger()
def fail(key):
    1 / 0
try:
    fail("a variable")
except ZeroDivisionError:
    log.exception("it failed")
try:
    raise ValueError("about {key}")
except ValueError:
    log.exception("request", path="/collections/{key}")
end = clean_lines(lambda line: line.replace("planted", "***"))
try:
    raise ValueError("about planted")
except ValueError:
    log.exception("said planted", key="planted")
end()
log.info("afterwards: planted")
"""


@pytest.mark.parametrize("style", ["console", "json"])
def test_a_traceback_shows_no_values_of_variables_no_key_and_nothing_that_is_cleaned_away(style):
    """With every other line, until told otherwise."""
    program = TRACEBACKS.replace("{style}", style).replace("{key}", KEY)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "ZeroDivisionError" in ended.stderr
    assert "a variable" not in ended.stderr
    assert "/collections/rw_ab12cd34_…" in ended.stderr
    assert "s" * 43 not in ended.stderr
    before, _, afterwards = ended.stderr.partition("afterwards")
    assert "about ***" in before
    assert ("planted" in before, "planted" in afterwards) == (False, True)


QUOTED = r"""
import logging, sys, threading, warnings
from wrapper.observing.captured_lines import capture
from wrapper.observing.logs import configure
configure("info", "{style}")
capture()
logging.getLogger("library").warning("it said %s", "x" * 8_190 + "{key}" + "y" * 40_000)
warnings.warn("an old way")
print("printed", end="")
print(" at once\n\nand again")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
class Broken:
    def __del__(self):
        raise ValueError("nowhere")
Broken()
sys.stderr.write("a half line")
logging.getLogger("library").info("not wanted")
logging.getLogger("library").error("lone \\udcff")
raise LookupError("the end of {key}")
"""


def test_everything_that_a_process_writes_is_a_line_of_the_log():
    program = QUOTED.replace("{style}", "json").replace("{key}", KEY)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "")
    lines = lines_of(ended.stderr)
    said = {line["event"][:20]: line for line in lines}
    assert said["it said " + "x" * 12]["logger"] == "library"
    assert len(said["it said " + "x" * 12]["event"]) <= MAX_EVENT_CHARACTERS
    assert any("an old way" in line["event"] and line["logger"] == "py.warnings" for line in lines)
    assert said["printed at once"]["logger"] == said["and again"]["logger"] == "stdout"
    assert "ZeroDivisionError" in said["an exception ended a thread"[:20]]["exception"]
    assert any("nowhere" in line.get("exception", "") for line in lines)
    assert "LookupError" in lines[-1]["exception"]
    assert lines[-1]["level"] == "critical"
    assert "not wanted" not in ended.stderr
    assert "ss" not in ended.stderr.replace("process", "").replace("class", "")


def test_on_a_terminal_all_lines_read_alike():
    program = QUOTED.replace("{style}", "console").replace("{key}", KEY)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    begin = re.compile(r"(\x1b\[\d+m)*\d{4}-\d\d-\d\dT[\d:.]+Z")
    events = [line for line in ended.stderr.splitlines() if begin.match(line)]
    assert sum("[" in line and "library" in line for line in events) == 2
    assert any("printed at once" in line for line in events)
    assert "the end of rw_ab12cd34_…" in ended.stderr


@pytest.mark.executed
def test_a_service_writes_one_format_from_its_first_line_to_its_last(tmp_path, processes):
    with live_service(tmp_path, workers=1, log_format="json") as service:
        with service.session() as session:
            session.post(f"{service.url}/collections", json={"name": "logged"}).raise_for_status()
        with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_SECONDS) as raw:
            raw.sendall(f"BREW /{KEY}\r\n\r\n".encode())
            raw.recv(1000)
        engine = service.engine_pid
        os.kill(engine, signal.SIGKILL)
        eventually(lambda: service.engine_pid not in (None, engine), complaint=service.tail)
        service.wait_until_healthy()
    lines = lines_of(service.log.read_text())
    events = [line["event"] for line in lines]
    assert events[0].startswith("Starting gunicorn")
    assert events[-1].startswith("Shutting down")
    assert {"gunicorn", "wrapper.requests", "wrapper.engine.keeper_process"} <= {line["logger"] for line in lines}
    (created,) = (line for line in lines if line.get("path") == "/collections")
    assert created["bytes"] > 0
    (invalid,) = (line for line in lines if line["event"].startswith("Invalid request"))
    assert (invalid["level"], CUT in invalid["event"], "sss" in invalid["event"]) == ("warning", True, False)


def environ_of(tmp_path):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    return environ | {"RAG_DATA_DIR": str(tmp_path / "data"), "RAG_LOG_FORMAT": "json"}


@pytest.mark.parametrize(
    ("arguments", "settings", "sentence"),
    [
        (["--nonsense"], {}, "No such option"),
        (["--config", "/nowhere.yaml"], {}, "does not exist"),
        (["--config", KEY], {}, f"File 'rw_ab12cd34_{CUT}' does not exist"),
        ([], {"RAG_WORKERS": "none"}, "RAG_WORKERS"),
        ([], {"RAG_CHROMA_URL": "nowhere"}, "RAG_CHROMA_URL"),
    ],
)
def test_a_start_that_fails_says_so_in_the_same_format(tmp_path, arguments, settings, sentence, processes):
    done = refused_start(*arguments, environ=environ_of(tmp_path) | settings)
    assert (done.returncode in (1, 2), done.stdout) == (True, "")
    lines = lines_of(done.stderr)
    assert [line["level"] for line in lines] == ["error"]
    assert sentence in lines[0]["event"]


def test_a_wrong_option_is_told_to_a_person_as_by_other_commands_also_where_no_line_can_be_written(processes):
    environ = os.environ | {"RAG_LOG_FORMAT": "console"}
    done = subprocess.run(command("serve", "--nonsense"), env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: ")
    assert "No such option '--nonsense'" in done.stderr
    with open("/dev/full", "w") as full:
        assert subprocess.run(command("serve", "--nonsense"), stdout=full, stderr=full).returncode == 2


def test_gunicorn_says_in_the_same_format_why_it_does_not_start(tmp_path, processes):
    gunicorn = [
        sys.executable,
        "-m",
        "gunicorn",
        "-c",
        "python:wrapper.serving.gunicorn_config",
        "wrapper:create_app()",
    ]
    environ = environ_of(tmp_path) | {"RAG_PORT": "0"}
    done = subprocess.run(gunicorn, env=environ, capture_output=True, text=True)
    lines = lines_of(done.stderr)
    assert (done.returncode, done.stdout) == (1, "")
    assert "RAG_PORT" in lines[-1]["event"]
