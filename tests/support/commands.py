"""Run commands as separate processes: `rag-wrapper` with every warning as an error, and a check on what tests start."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.forking import RUN_MAIN, Forked
from tests.support.live import PATIENCE_SECONDS

_LIVES_ON = re.compile(
    r"\b(rag-wrapper|interfaces\.cli)\b.* (serve|watch|mcp)( |$)|-m interfaces\.commands\.(demo|serve)\b"
    r"|(^|[/ ])gunicorn( |$)|\bchroma run\b|\bchromadb_rust_bindings as bindings\b|(^|[/ ])chromium\b|\bnpm\b|\bpip\b"
    r"|\binitdb\b|/pg_ctl .* start$|\bpostgres -D\b"
)


_SEARCH = """
import json, sys
from pathlib import Path
folder, words = json.load(sys.stdin)
words = [bytes.fromhex(word).lower() for word in words]
found = []
for path in sorted(Path(folder).rglob("*")):
    if path.is_file():
        content = path.read_bytes().lower()
        if any(word in content for word in words):
            found.append(str(path.relative_to(folder)))
print(json.dumps(found))
"""


class ShortLived(Forked):
    """Takes the place of Popen in tests without the fixture `processes`: it refuses what costs much to start, or lives
    on: services, databases, browsers, package managers. An app in this process may start its engine."""

    def __init__(self, args: Any, *more: Any, **options: Any) -> None:
        line = args if isinstance(args, str) else " ".join(os.fsdecode(each) for each in args)
        if _LIVES_ON.search(line):
            raise AssertionError(f"A test that starts this must ask for the fixture `processes`: {line}")
        super().__init__(args, *more, **options)


def run_command(
    *arguments: object, timeout_seconds: float = PATIENCE_SECONDS, **settings: object
) -> subprocess.CompletedProcess[str]:
    """Return the finished process of a command, which runs without the settings that the tests themselves were started
    with. `settings` are RAG_ variables in lower case."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    environ |= {f"RAG_{name.upper()}": str(value) for name, value in settings.items()}
    command = (*RUN_MAIN, *map(str, arguments))
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=False, env=environ)


def files_holding(folder: Path, *words: str | bytes) -> list[str]:
    """Return the paths, relative to the folder, of the files in and below it that hold any of the words in any case.

    They are read in a process of its own: one that closes a file loses all its locks on it, those of SQLite too.
    """
    asked = [(word.encode() if isinstance(word, str) else word).hex() for word in words]
    question = json.dumps([os.fsdecode(folder), asked])
    done = subprocess.run(
        [sys.executable, "-c", _SEARCH],
        input=question,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    return json.loads(done.stdout)
