"""`make conformance`: install the Python client as a stranger would, and run LangChain's suites on it.

Each step has an environment of its own, which `pip` fills from a package index. Exits with 0 when all steps pass.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from clients.conformance.python_client.documented import program
from tests.support.live import live_service

PROJECT = Path(__file__).parents[3]
CLIENT = PROJECT / "clients" / "python"
SUITES = Path(__file__).with_name("langchain_suites.py")
GUIDE = PROJECT / "docs" / "integrations" / "langchain.md"
SECONDS = 900
WITHOUT_LANGCHAIN = """
import os
from rag_wrapper_client import Client
with Client(os.environ["RAG_CONFORMANCE_URL"]) as client:
    assert client.health()["status"] == "healthy"
try:
    import rag_wrapper_client.langchain
except ImportError as error:
    assert "pip install" in str(error)
else:
    raise AssertionError("LangChain is there")
"""
TYPED = """
from rag_wrapper_client import AsyncClient, Client
from rag_wrapper_client.wire import Collection

def described(client: Client) -> Collection:
    return client.collection("library", if_none_match=None)

async def counted(client: AsyncClient) -> int:
    answer = await client.with_answer.count_documents("library")
    return answer.value["count"] + len([found["id"] async for found in client.documents("library")])
"""
WRONG = "from rag_wrapper_client import Client\nfound: str = Client().collection(3)\n"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="rag-wrapper-client-") as made:
        folder = Path(made)
        wheel = _wheel(folder / "dist")
        bare = _environment(folder / "bare", str(wheel))
        full = _environment(
            folder / "full", f"{wheel}[langchain]", "langchain-tests>=1.1.9,<2", "mypy>=2,<3", "types-requests"
        )
        (folder / "typed.py").write_text(TYPED)
        (folder / "wrong.py").write_text(WRONG)
        with live_service(folder, access="open") as service:
            environ = {**os.environ, "RAG_CONFORMANCE_URL": service.url}
            steps = {
                "the wheel in an empty environment": _passes([bare, "-c", WITHOUT_LANGCHAIN], folder, environ),
                "LangChain's suites": _passes([full, *_pytest(SUITES)], folder, environ),
                "the examples for LangChain": _passes([full, "-c", program(GUIDE, service.url)], folder, environ),
                "the types, as others see them": _passes([full, *_mypy("typed.py")], folder, environ)
                and not _passes([full, *_mypy("wrong.py")], folder, environ, quiet=True),
                "the types, from inside": _passes([full, *_mypy("-p", "rag_wrapper_client")], folder, environ),
            }
    for name, is_passed in steps.items():
        print(f"{'passed' if is_passed else 'FAILED'}  Python client: {name}")
    return 0 if all(steps.values()) else 1


def _wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(CLIENT)]
    subprocess.run(command, check=True, timeout=SECONDS)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _environment(folder: Path, *requirements: str) -> str:
    """Make an environment with these packages, and return its Python."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([python, "-m", "pip", "install", *quiet, *requirements], check=True, timeout=SECONDS)
    return python


def _pytest(path: Path) -> list[str]:
    """Return a run without the configuration and the fixtures of this project, whose packages are not there."""
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-W", "error"]
    alone = ["-c", os.devnull, "--rootdir", str(path.parent), "--confcutdir", str(path.parent)]
    loops = ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"]
    return ["-m", "pytest", *options, *alone, *loops, str(path)]


def _mypy(*checked: str) -> list[str]:
    return ["-m", "mypy", "--strict", "--no-error-summary", *checked]


def _passes(command: list[str], folder: Path, environ: dict[str, str], *, quiet: bool = False) -> bool:
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode != 0 and not quiet:
        print(f"--- {' '.join(command)[:300]}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}", file=sys.stderr)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
