"""`rag-wrapper serve` checks and serves in one process, which imports everything once."""

import json
import subprocess
import sys

import pytest

from tests.support.live import free_port

PROBE = """
import json, os, runpy, sys

class Watch:
    def find_spec(self, name, *_):
        if name == "numpy":
            told["threads"] = os.environ.get("OPENBLAS_NUM_THREADS")

def serving(module, **_):
    told["module"], told["arguments"], told["folder"] = module, sys.argv[1:], os.getcwd()

told = {}
sys.meta_path.insert(0, Watch())
runpy.run_module = serving
from interfaces.cli import main
main(["serve"], standalone_mode=False)
import numpy
os.write(1, json.dumps(told).encode())
"""


@pytest.fixture
def told(tmp_path, monkeypatch):
    """What a process that serves would do once its checks are passed, and what NumPy found when it was imported."""
    monkeypatch.setenv("RAG_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("RAG_PORT", str(free_port()))
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_process_that_has_checked_becomes_gunicorns_master(told, pytestconfig):
    assert told["module"] == "gunicorn"
    assert told["arguments"] == ["-c", "python:wrapper.serving.gunicorn_config", "interfaces.compose:create_app()"]
    assert told["folder"] == str(pytestconfig.rootpath)


def test_numpy_works_with_one_thread_whoever_imports_it_first(told):
    assert told["threads"] == "1"
