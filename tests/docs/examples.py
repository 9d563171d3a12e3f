"""Read the examples of a Markdown document: commands to run and the answers shown for them.

A ```js block right behind a command does the same with the TypeScript client, and has the same answer: the last value
that it hands to `console.log`. What the first one of a document has before an empty line begins the later ones, too.

A ```bash block is a command that is run. The next ```json or ```text block before another command is its answer, as a
reader sees it. In shown JSON, "…" stands for any value, a string that ends with … for any that begins with it, the key
"…" for further keys, and an element "…" for further elements. A number is compared to as many decimals as are shown.
Each line of shown text must be a line of the output, in that order; … at its end means that the line goes on.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.clients.typescript_client import install_package, run
from tests.support.live import PATIENCE_SECONDS

PROJECT = Path(__file__).parents[2]
LINES_OF_A_BEGINNING = 40
MORE = "…"
DOCUMENTED_ADDRESS = "http://127.0.0.1:5006"
_NOTHING = object()
_SHOW = "process.stdout.write(JSON.stringify(shown));\n"


@dataclass
class Example:
    """A command and its answer. `line` is where it begins in the document, from 1; `shown` is None without a shown
    answer."""

    line: int
    command: str
    language: str = ""
    shown: str | None = None
    script: str | None = None
    """The same in JavaScript, with what every script of the document begins with."""

    def fault(self, output: str) -> str | None:
        """Return how the output differs from what is shown, or None when it does not."""
        if self.shown is None:
            return None
        if self.language == "text":
            return next(_missing_lines(self.shown, output), None)
        return difference(json.loads(self.shown, parse_float=Decimal), json.loads(output, parse_float=Decimal))


def reader(url: str, folder: Path, proxies: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """Return a function that runs a command in a folder as a reader would, and returns its output.

    Commands that name the documented address ask the service at `url`, and those that name one of `proxies` ask that
    proxy. Skips the test when there is no curl.
    """
    if shutil.which("curl") is None:
        pytest.skip("the examples are curl commands, and there is no curl here")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "RAG_PORT": url.rsplit(":", 1)[1]}

    def run_command(command: str) -> str:
        script = command.replace(".venv/bin/", "")
        for documented, actual in {DOCUMENTED_ADDRESS: url, **(proxies or {})}.items():
            script = script.replace(documented, actual)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}{done.stderr}\n{done.stdout}"
        return done.stdout

    return run_command


def copy_beginnings(folder: Path) -> None:
    """Copy the first sections of two of this project's documents into a folder: all of them would take seconds of
    embedding."""
    folder.mkdir()
    for name in ("reliability.md", "watching.md"):
        lines = (PROJECT / "docs" / name).read_text().splitlines()[:LINES_OF_A_BEGINNING]
        (folder / name).write_text("\n".join(lines))


def script_runner(url: str, folder: Path, built: Path) -> Callable[[str], str]:
    """Return a function that runs a script of the TypeScript client in a folder, and returns what it shows, as JSON."""
    install_package(folder, built)
    script = folder / "example.mjs"

    def run_script(text: str) -> str:
        text = text.replace(DOCUMENTED_ADDRESS, url)
        script.write_text(f"let shown;\nconsole.log = (value) => void (shown = value);\n{text}\n{_SHOW}")
        done = run(["node", "example.mjs"], folder, PATIENCE_SECONDS)
        assert done.returncode == 0, f"{text}{done.stderr}\n{done.stdout}"
        return done.stdout

    return run_script


@cache
def tokens(document: Path) -> list[Token]:
    """Return the blocks of a Markdown file, which is read once."""
    return MarkdownIt("commonmark").enable("table").parse(document.read_text())


def examples(document: Path) -> list[Example]:
    found: list[Example] = []
    beginning = ""
    for token in tokens(document):
        language = token.info.strip() if token.type == "fence" else ""
        if language == "bash" and token.map is not None:
            found.append(Example(token.map[0] + 2, token.content))
        elif language == "js" and found and found[-1].shown is None and found[-1].script is None:
            found[-1].script = beginning + token.content
            beginning = beginning or _imports_and_client(token.content)
        elif language in ("json", "text") and found and found[-1].shown is None:
            found[-1].language, found[-1].shown = language, token.content
    return found


def _imports_and_client(script: str) -> str:
    """Return the lines up to the first empty one."""
    return script.partition("\n\n")[0] + "\n"


def difference(shown: Any, actual: Any, path: str = "answer") -> str | None:
    """Return the first place where an answer differs from what is shown, or None when it does not."""
    if shown == MORE:
        return None
    if isinstance(shown, dict) and isinstance(actual, dict):
        unshown = [] if MORE in shown else [key for key in actual if key not in shown]
        for key in [*(key for key in shown if key != MORE), *unshown]:
            fault = difference(shown.get(key, _NOTHING), actual.get(key, _NOTHING), f"{path}.{key}")
            if fault:
                return fault
        return None
    if isinstance(shown, list) and isinstance(actual, list):
        if shown and shown[-1] == MORE:
            shown, actual = shown[:-1], actual[: len(shown) - 1]
        pairs = zip_longest(shown, actual, fillvalue=_NOTHING)
        faults = (difference(left, right, f"{path}[{index}]") for index, (left, right) in enumerate(pairs))
        return next(filter(None, faults), None)
    return None if _same(shown, actual) else f"{path} is {_spelt(actual)}, shown as {_spelt(shown)}"


def _same(shown: Any, actual: Any) -> bool:
    if isinstance(shown, str) and isinstance(actual, str) and shown.endswith(MORE):
        return actual.startswith(shown.removesuffix(MORE))
    if isinstance(shown, Decimal) and isinstance(actual, Decimal | int) and not isinstance(actual, bool):
        return bool(abs(shown - actual) <= Decimal((0, (5,), int(shown.as_tuple().exponent) - 1)))
    return type(shown) is type(actual) and bool(shown == actual)


def _missing_lines(shown: str, output: str) -> Iterator[str]:
    rest = iter(output.replace("\r", "").splitlines())
    for line in shown.splitlines():
        start = line.removesuffix(MORE)
        if not any(each.startswith(start) if start != line else each == line for each in rest):
            yield f"no line {line!r} in the output"


def _spelt(value: Any) -> str:
    return "missing" if value is _NOTHING else repr(value) if not isinstance(value, Decimal) else str(value)
