"""Makes an environment for each client, of packages that pip and npm fetch, and runs its program there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

from clients.conformance.chroma_clients.clients import Client

ASKING = Path(__file__).with_name("asking")
SECONDS = 900
TESTED = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED) \S*\.py::(.*?)(?: - .*)?$", re.MULTILINE)


def command(client: Client, folder: Path) -> list[str]:
    """Make the environment of a client in a new folder, and return how its program is run."""
    shutil.copytree(ASKING, folder)
    if client.program.endswith(".mjs"):
        _node(client, folder)
        return ["node", client.program]
    python = _python(client, folder)
    return [python, *(_pytest(folder) if client.is_suite else []), client.program]


def outcomes(client: Client, ran: list[str], folder: Path, port: int, key: str) -> dict[str, str]:
    """Run the program against the server at a port, and return the outcome of each of its steps or tests."""
    environ = {**os.environ, "CHROMA_PORT": str(port), "CHROMA_KEY": key, "ANONYMIZED_TELEMETRY": "False"}
    done = subprocess.run(ran, cwd=folder, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False)
    if client.is_suite:
        return {name: outcome for outcome, name in TESTED.findall(done.stdout)}
    told = [json.loads(line) for line in done.stdout.splitlines()]
    for each in told:
        if each["outcome"].startswith("FAILED"):
            print(f"--- {each['step']}: {each['said']}", file=sys.stderr)
    if done.returncode:
        print(f"--- {client.program}\n{done.stderr[-4000:]}", file=sys.stderr)
    return {each["step"]: each["outcome"] for each in told} | ({"to the end": "FAILED"} if done.returncode else {})


def _pytest(folder: Path) -> list[str]:
    """Return a run without the configuration and the fixtures of this project."""
    alone = ["-c", os.devnull, "--rootdir", str(folder), "--confcutdir", str(folder)]
    return ["-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *alone, "-o", "asyncio_mode=auto"]


def _python(client: Client, folder: Path) -> str:
    made = folder / "environment"
    venv.create(made, with_pip=True)
    python = str(made / "bin" / "python")
    pip = [python, "-m", "pip", "-qq", "--disable-pip-version-check"]
    _run([*pip, "install", *client.packages], folder)
    if client.whole:
        _run([*pip, "download", "--no-deps", "--dest", "whole", client.whole], folder)
        [wheel] = (folder / "whole").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if "/retrieval/vector/" in name])
    return python


def _node(client: Client, folder: Path) -> None:
    quiet = ["--silent", "--no-fund", "--no-audit", "--ignore-scripts"]
    _run(["npm", "install", *quiet, "--legacy-peer-deps", "--prefix", str(folder), *client.packages], folder)
    if client.whole:
        _run(["npm", "pack", *quiet, client.whole], folder)
        [archive] = folder.glob("*.tgz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        place = folder / "node_modules" / client.whole.rpartition("@")[0]
        place.parent.mkdir(exist_ok=True)
        (folder / "package").rename(place)


def _run(what: list[str], folder: Path) -> None:
    subprocess.run(what, cwd=folder, check=True, timeout=SECONDS)
