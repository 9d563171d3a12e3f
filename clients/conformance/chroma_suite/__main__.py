"""`make conformance`: run the suite that Chroma's own package brings along, on a stock `chroma run` and on this service.

Prints both columns test by test, and exits with 0 when everything that passes there passes here, but for what
`not_here.yaml` names with a reason. The suite needs other releases of pytest than the project's, so it has an
environment of its own, which `pip` fills from a package index. It takes about forty minutes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import yaml

from tests.support.chroma import ChromaServer
from tests.support.live import live_service

VERSION = "1.5.9"
NEEDS = (
    f"chromadb=={VERSION}",
    "pytest==8.4.2",
    "pytest-asyncio==1.2.0",
    "pytest-rerunfailures",
    "hypothesis[numpy]==6.112.2",
    "fastapi",
    "uvicorn",
    "psutil",
    "pandas",
    "opentelemetry-instrumentation-fastapi",
)
PARTS = (
    "api",
    "client/test_database_tenant.py",
    "client/test_multiple_clients_concurrency.py",
    "configurations",
    "test_api.py",
    "property/test_embeddings.py",
    "property/test_filtering.py",
    "property/test_collections.py",
    "property/test_add.py",
    "test_multithreaded.py",
    "stress/test_many_collections.py",
)
OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) \S*chromadb/test/(\S.*?)(?: - .*)?$", re.MULTILINE)
NOT_HERE = Path(__file__).with_name("not_here.yaml")
SECONDS = 5_400


def main() -> int:
    parts = sys.argv[1:] or PARTS
    with tempfile.TemporaryDirectory(prefix="rag-wrapper-chroma-suite-") as made:
        folder = Path(made)
        python = _environment(folder / "environment")
        stock = ChromaServer(folder / "there", may_reset=True)
        stock.start()
        try:
            there = _outcomes(python, folder, stock.port, parts)
        finally:
            stock.stop(signal.SIGTERM)
        settings = {"allow_reset": "on", "disk_floor_mb": "1"}
        with live_service(folder, access="open", **settings) as service:
            here = _outcomes(python, folder, service.port, parts)
    return _judged(there, here)


def _judged(there: dict[str, str], here: dict[str, str]) -> int:
    known = yaml.safe_load(NOT_HERE.read_text())
    missing = []
    print(f"{'chroma run':12} {'here':12} test")
    for name in sorted(there | here):
        both = there.get(name, "-"), here.get(name, "-")
        print(f"{both[0]:12} {both[1]:12} {name}")
        if both[0] == "PASSED" and both[1] != "PASSED" and not any(name.startswith(each) for each in known):
            missing.append(name)
    passed = sum(each == "PASSED" for each in there.values())
    print(f"\n{passed} pass on chroma run {VERSION}; of these, {len(missing)} do not here and are not explained")
    for name in missing:
        print(f"FAILED  {name}")
    return 1 if missing or not passed else 0


def _environment(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDS], check=True, timeout=SECONDS)
    return python


def _outcomes(python: Path, folder: Path, port: int, parts: list[str] | tuple[str, ...]) -> dict[str, str]:
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    found = subprocess.run(
        [python, "-c", "import chromadb, pathlib; print(pathlib.Path(chromadb.__file__).parent / 'test')"],
        capture_output=True,
        text=True,
        check=True,
    )
    suite = Path(found.stdout.strip())
    environ = {
        **os.environ,
        "CHROMA_INTEGRATION_TEST_ONLY": "1",
        "CHROMA_SERVER_HOST": "127.0.0.1",
        "CHROMA_SERVER_HTTP_PORT": str(port),
        "PROPERTY_TESTING_PRESET": "fast",
        "ANONYMIZED_TELEMETRY": "False",
    }
    ran = subprocess.run(
        [
            *(python, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider"),
            *("-c", folder / "pytest.ini", "--rootdir", folder, *(suite / each for each in parts)),
        ],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return {name: outcome for outcome, name in OUTCOME.findall(ran.stdout)}


if __name__ == "__main__":
    sys.exit(main())
