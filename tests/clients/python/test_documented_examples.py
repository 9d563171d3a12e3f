"""The examples of the guide to the Python client run, one after the other, against a new service."""

import subprocess
import sys
from pathlib import Path

from clients.conformance.python_client.documented import program

GUIDE = Path(__file__).parents[3] / "docs" / "integrations" / "python.md"


def test_the_examples_run(live):
    wanted = program(GUIDE, live.url)
    assert wanted.count("assert") > 5
    done = subprocess.run([sys.executable, "-W", "error", "-c", wanted], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with live.session() as session:
        for name in ("letters", "copies"):
            session.delete(f"{live.url}/collections/{name}")
