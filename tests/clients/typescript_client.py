"""Build the TypeScript client for tests, and run Node on it.

The packages that the build needs come from npm once, and stay in `.npm-tools`; so does the build, until a file of the
client or the description of the wire changes.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
CLIENT = PROJECT / "clients" / "typescript"
DESCRIPTION = PROJECT / "openapi.yaml"
TOOLS = PROJECT / ".npm-tools"
SOURCES = ("package.json", "package-lock.json", "tsconfig*.json", "scripts/*", "src/*.ts", "tests/*.ts")
INSTALL_SECONDS, BUILD_SECONDS = 120, 300


class BuildError(Exception):
    """The client cannot be built here; the sentence says why."""


def built_client() -> Path:
    """Return a folder with the client and its tests as JavaScript in `.tests`, and in `dist/esm` what is packed for
    browsers, built if it is not there yet.

    Skips the test, aloud, where npm has no packages to give; fails when they are there and the build does not succeed.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed: the TypeScript client is not tried")
    try:
        modules = _kept("typescript-modules", _digest([CLIENT / "package-lock.json"]), _install)
    except BuildError as error:
        pytest.skip(f"npm cannot be asked for what builds the TypeScript client: {error}")
    return _kept("typescript-client", _digest([*sources(), DESCRIPTION]), lambda folder: _build(folder, modules))


def sources() -> list[Path]:
    """Return the files of the client that are kept in Git."""
    return sorted(file for pattern in SOURCES for file in CLIENT.glob(pattern))


def copy_sources(folder: Path) -> None:
    for file in sources():
        copy = folder / file.relative_to(CLIENT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)


def run(command: list[str], folder: Path, seconds: float, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command of Node or npm in a folder, without keys and proxies of the environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    return subprocess.run(
        command, cwd=folder, env=kept | environ, capture_output=True, text=True, timeout=seconds, check=False
    )


def install_package(folder: Path, built: Path) -> None:
    """Let scripts in a folder import `rag-wrapper-client` as if it had been installed."""
    package = folder / "node_modules" / "rag-wrapper-client"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"type": "module", "exports": "./index.js"}')
    (package / "index.js").write_text(f'export * from "{(built / ".tests/src/index.js").as_uri()}";\n')


def _install(folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(CLIENT / name, folder)
    try:
        done = run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder, INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise BuildError(f"not within {INSTALL_SECONDS} s") from None
    if done.returncode:
        raise BuildError(done.stderr.strip()[-300:])


def _build(folder: Path, modules: Path) -> None:
    copy_sources(folder)
    (folder / "node_modules").symlink_to(modules / "node_modules")
    environ: Mapping[str, str] = {"RAG_WRAPPER_DESCRIPTION": str(DESCRIPTION)}
    for script in (
        ["scripts/generate.mjs"],
        ["scripts/every-route.mjs"],
        ["node_modules/typescript/bin/tsc", "--project", "tsconfig.tests.json"],
        ["node_modules/typescript/bin/tsc", "--project", "tsconfig.json"],
    ):
        done = run(["node", *script], folder, BUILD_SECONDS, **environ)
        assert done.returncode == 0, f"{script[0]}\n{done.stdout}{done.stderr}"


def _kept(name: str, digest: str, fill: Callable[[Path], None]) -> Path:
    """Return the folder of this name and digest, filled if it is new; those of other digests are removed.

    Whoever comes while another run fills it waits, and finds it filled.
    """
    folder = TOOLS / f"{name}-{digest}"
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        # Beside its place first: a run may be killed in the middle.
        fresh = Path(tempfile.mkdtemp(prefix="fresh-", dir=TOOLS))
        try:
            fill(fresh)
            fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        for other in TOOLS.glob(f"{name}-*"):
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
    return folder


def _digest(files: list[Path]) -> str:
    found = hashlib.sha256()
    for file in files:
        found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:16]
