"""`rag-wrapper` commands as processes of their own, in which every warning is an error."""

from __future__ import annotations

import os
import subprocess
import sys

RUN_MAIN = (sys.executable, "-W", "error", "-c", "from interfaces.cli import main; main(prog_name='rag-wrapper')")


def run_command(*arguments: object, timeout_seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
    """What a command came to, whatever settings the tests themselves were started with."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    command = (*RUN_MAIN, *map(str, arguments))
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=False, env=environ)
