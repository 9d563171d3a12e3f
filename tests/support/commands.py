"""Run commands as separate processes: `rag-wrapper` with every warning as an error, and a check on what tests start."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

RUN_MAIN = (sys.executable, "-W", "error", "-c", "from interfaces.cli import main; main(prog_name='rag-wrapper')")
APP_OF_ALL = "app-of-all"
"""The directory of the app that all tests share."""
_LIVES_ON = re.compile(
    r"\b(rag-wrapper|interfaces\.cli)\b.* (serve|watch|mcp)( |$)|-m interfaces\.commands\.(demo|serve)\b"
    r"|(^|[/ ])gunicorn( |$)|\bwrapper\.engine\.keeper\b|\bchroma(_main\.py| run\b)|\bchromadb_rust_bindings\b"
    r"|/pg_ctl .* start$|\bpostgres -D\b"
)


class ShortLived(subprocess.Popen):
    """Takes the place of Popen in tests without the fixture `processes`: it refuses long-lived processes, except for
    the engine of the app that all tests share."""

    def __init__(self, args: Any, *more: Any, **options: Any) -> None:
        line = args if isinstance(args, str) else " ".join(os.fsdecode(each) for each in args)
        if _LIVES_ON.search(line) and APP_OF_ALL not in line:
            raise AssertionError(f"A test that starts this must ask for the fixture `processes`: {line}")
        super().__init__(args, *more, **options)


def run_command(
    *arguments: object, timeout_seconds: float = 120.0, **settings: object
) -> subprocess.CompletedProcess[str]:
    """Return the finished process of a command, which runs without the settings that the tests themselves were started
    with. `settings` are RAG_ variables in lower case."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    environ |= {f"RAG_{name.upper()}": str(value) for name, value in settings.items()}
    command = (*RUN_MAIN, *map(str, arguments))
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=False, env=environ)
