"""A real service is tested against openapi.yaml: with requests that fit it, requests that do not, and chains of them.

`RAG_FUZZ_EXAMPLES` says how many requests each operation is tested with, and without it none are: that takes minutes, and
every answer to every other test is checked against openapi.yaml too. `RAG_FUZZ_SEED` gives others than usual.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.requests_made import NAMES
from tests.support.contract import OPENAPI

HERE = Path(__file__).parent
EXAMPLES = os.environ.get("RAG_FUZZ_EXAMPLES")
SEED = os.environ.get("RAG_FUZZ_SEED")


@pytest.mark.skipif(EXAMPLES is None, reason="`make soak` and the nightly run do it: it takes minutes")
@pytest.mark.timeout(7_200)
def test_the_service_does_what_its_description_says(live, session, tmp_path):
    for name in NAMES:
        assert session.post(f"{live.url}/collections", json={"name": name}).status_code == 201
        documents = [
            {"id": f"d{n}", "text": f"{name} {n}", "metadata": {"page": n}, "embedding": [n, 1]} for n in range(5)
        ]
        assert (
            session.post(f"{live.url}/collections/{name}/documents", json={"documents": documents}).status_code == 201
        )
    run = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "--config-file", HERE / "schemathesis.toml", "run", OPENAPI]
        + ["--url", live.url, "--max-examples", EXAMPLES, "--no-color", "--no-shrink"]
        # It writes whole databases anew and restarts the engine: tests/scenarios/erasure has it alone.
        + ["--exclude-operation-id", "erase"]
        + (["--seed", SEED] if SEED else ["--generation-deterministic"]),
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(OPENAPI.parent)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
