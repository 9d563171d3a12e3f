"""`make conformance`: run the official inspector and conformance suite, from npm, against the served interface, and the
TypeScript client as it is packed.

Exits with 0 when every applicable scenario passes and every call succeeds. It needs the network, or npm's cache.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
from pathlib import Path

from clients.conformance import typescript
from clients.conformance.examined import examined_server
from interfaces.commands.scratch_service import command
from tests.support.live import live_service

NODE = "node@22"
CONFORMANCE = "@modelcontextprotocol/conformance@0.1.16"
INSPECTOR = "@modelcontextprotocol/inspector@0.15.0"
NOT_APPLICABLE = Path(__file__).with_name("not_applicable.yaml")
OF_THE_SERVICE = ("server-initialize", "ping", "tools-list", "dns-rebinding-protection")
"""Scenarios that call no tool by name."""
SECONDS = 600
CALLS = (
    ("--method", "tools/list"),
    ("--method", "tools/call", "--tool-name", "rag_collections"),
    ("--method", "tools/call", "--tool-name", "rag_query", "--tool-arg", "query=backups", "--tool-arg", "limit=3"),
    ("--method", "tools/call", "--tool-name", "session_start", "--tool-arg", "name=conformance"),
    ("--method", "tools/call", "--tool-name", "session_end"),
)


def main() -> int:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with (
        tempfile.TemporaryDirectory(prefix="rag-wrapper-conformance-") as directory,
        live_service(Path(directory), mcp_write="on") as service,
        examined_server() as examined,
    ):
        steps = {**_inspected(service.url), **_examined(service.url, examined)}
        passed = {name: _passes(name, step, directory) for name, step in steps.items()}
        client = typescript.steps(typescript.packed(Path(directory)), Path(directory), service.url)
        passed |= {name: _passes(name, step, str(folder)) for name, (step, folder) in client.items()}
    for name, is_passed in passed.items():
        print(f"{'passed' if is_passed else 'FAILED'}  {name}")
    return 0 if all(passed.values()) else 1


def _inspected(url: str) -> dict[str, list[str]]:
    over = {
        "HTTP": [f"{url}/mcp", "--transport", "http"],
        "stdio": command("mcp", "--url", url),
    }
    return {
        f"inspector over {transport}: {' '.join(call)}": _npx(INSPECTOR, "mcp-inspector", "--cli", *server, *call)
        for transport, server in over.items()
        for call in CALLS
    }


def _examined(service_url: str, examined_url: str) -> dict[str, list[str]]:
    def suite(url: str, *options: str) -> list[str]:
        return _npx(CONFORMANCE, "conformance", "server", "--url", f"{url}/mcp", *options)

    steps = {
        f"conformance of the service: {scenario}": suite(service_url, "--scenario", scenario)
        for scenario in OF_THE_SERVICE
    }
    steps["conformance of the interface: all applicable scenarios"] = suite(
        examined_url, "--suite", "all", "--expected-failures", str(NOT_APPLICABLE)
    )
    return steps


def _npx(package: str, program: str, *arguments: str) -> list[str]:
    return ["npx", "--yes", "--package", NODE, "--package", package, "--", program, *arguments]


def _passes(name: str, step: list[str], directory: str) -> bool:
    done = subprocess.run(step, cwd=directory, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode != 0 or '"isError": true' in done.stdout:
        print(f"--- {name}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}", file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
