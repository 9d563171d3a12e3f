"""Every line that a service writes, from its first to its last, is a JSON object with the same first fields."""

import os
import signal
import socket
import subprocess
import sys

import orjson
import pytest

from schemas.access.credentials_in_text import CUT
from tests.support.live import PATIENCE_SECONDS, command, eventually, free_port, live_service

KEY = "rw_ab12cd34_" + "S" * 43


def lines_of(text):
    lines = [orjson.loads(line) for line in text.splitlines()]
    for line in lines:
        assert list(line)[:4] == ["timestamp", "level", "logger", "event"], line
    return lines


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
    assert (invalid["level"], CUT in invalid["event"], "SSS" in invalid["event"]) == ("warning", True, False)


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
    environ = environ_of(tmp_path) | {"RAG_PORT": str(free_port())} | settings
    done = subprocess.run(command("serve", *arguments), env=environ, capture_output=True, text=True)
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
