"""`make demo`, and the services that it and others run on a directory of their own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interfaces.commands import scratch_service as scratch
from schemas.errors import UnavailableError
from tests.support.live import PATIENCE_SECONDS

SERVE = """
import json, os, signal, subprocess, sys, http.server
if "{mode}" == "orphan":
    subprocess.Popen(["sleep", "300"], start_new_session=True)
if "{mode}" == "broken":
    sys.exit("cannot start: no luck")
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({{"status": "healthy"}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("settings:", sorted(name for name in os.environ if name.startswith("RAG_")), flush=True)
http.server.HTTPServer(("127.0.0.1", int(os.environ["RAG_PORT"])), Health).serve_forever()
"""


@pytest.fixture
def serve_as(monkeypatch):
    def serve_as(mode):
        program = [sys.executable, "-c", SERVE.format(mode=mode)]
        monkeypatch.setattr(scratch, "command", lambda *arguments: program)

    return serve_as


def test_a_scratch_service_has_only_its_own_settings_and_is_gone_afterwards(serve_as, monkeypatch, tmp_path):
    monkeypatch.setenv("RAG_CATALOG_URL", "postgresql://precious")
    serve_as("well")
    with scratch.scratch_service(tmp_path) as service:
        assert scratch.processes_in(tmp_path)
        assert "settings: ['RAG_DATA_DIR', 'RAG_HOST', 'RAG_PORT']" in service.log_tail
    assert scratch.processes_in(tmp_path) == []


def test_a_service_that_cannot_start_is_quoted_and_a_process_left_behind_told_and_ended(serve_as, tmp_path):
    serve_as("broken")
    with (
        pytest.raises(UnavailableError, match="exit code 1:\ncannot start: no luck"),
        scratch.scratch_service(tmp_path),
    ):
        pytest.fail("it did not start")
    serve_as("orphan")
    with pytest.raises(UnavailableError, match="left processes behind"), scratch.scratch_service(tmp_path):
        assert len(scratch.processes_in(tmp_path)) == 2
    assert scratch.processes_in(tmp_path) == []


def test_the_demo_succeeds_on_a_part_of_this_projects_documentation(processes, tmp_path):
    """Two pages are enough: to embed more proves no more."""
    project = Path(__file__).parents[3]
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/how-to.md"):
        shutil.copy(project / name, tmp_path / name)
    command = [sys.executable, "-m", "benchmarks.demo", tmp_path]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS * 2, cwd=project, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "checks hold" in result.stdout
