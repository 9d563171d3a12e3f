"""Install chromadb 0.6.3, which cannot live beside our release, as a layer over our environment for separate
processes."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from tests.support.live import PATIENCE_SECONDS

OLD = "0.6.3"
# Without dependencies except those that our environment lacks: it takes seconds instead of minutes and changes nothing
# of ours.
PACKAGES = (
    f"chromadb=={OLD}",
    "chroma-hnswlib==0.7.6",
    "posthog==3.25.0",
    "backoff==2.2.1",
    "distro==1.9.0",
    "monotonic==1.6",
    "six==1.17.0",
)
INSTALL_SECONDS = 5 * PATIENCE_SECONDS
WRITER = Path(__file__).with_name("foreign_collections.py")


class NotInstalledError(Exception):
    """chromadb 0.6.3 could not be installed; the message is pip's last line, or that pip took too long."""


def install(directory: Path) -> Path:
    """Return a folder to put first on PYTHONPATH, made once. Raise NotInstalledError when pip cannot install the
    packages."""
    target = directory / f"python{sys.version_info.major}.{sys.version_info.minor}"
    done = target / "installed"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            return target
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        try:
            tried = subprocess.run(
                [*pip, "--only-binary", "chroma-hnswlib", "--upgrade", "--target", str(target), *PACKAGES],
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise NotInstalledError(f"pip took more than {INSTALL_SECONDS} seconds") from None
        if tried.returncode:
            raise NotInstalledError(tried.stderr.strip().splitlines()[-1])
        done.touch()
    return target


def write_directory(directory: Path, *, old: Path | None = None) -> Path:
    """Write a Chroma directory with the collections of `foreign_collections.py`, by our chromadb or by the `old`
    one."""
    environ = {**os.environ, "ANONYMIZED_TELEMETRY": "False"}
    if old is not None:
        environ["PYTHONPATH"] = str(old)
    made = subprocess.run([sys.executable, str(WRITER), str(directory)], env=environ, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return directory
