"""Ask the package registry which pinned packages lack a wheel for which Python and machine.

    .venv/bin/python -m tests.docs.wheels

prints what `WITHOUT_WHEELS` of `test_constraints.py` should hold. It installs nothing. It needs pip, the network and
some minutes, more with an older pip, which downloads whole wheels to read their metadata.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
OLDEST_GLIBC, NEWEST_GLIBC = 5, 28
"""Minor versions of glibc 2: wheels built for any of them run with glibc 2.28, which Debian 10 and RHEL 8 have."""
_MISSING = re.compile(r"No matching distribution found for ([\w.-]+)==")


def pinned(constraints: Path = CONSTRAINTS) -> dict[str, str]:
    """Return the pinned versions by the packages' canonical names."""
    lines = constraints.read_text().splitlines()
    return {canonical(name): version for name, equals, version in (line.partition("==") for line in lines) if equals}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def without_wheels() -> dict[str, set[tuple[str, str]]]:
    """Return by package the (Python, machine) without a wheel; a package with one for any machine is looked up once."""
    packages = pinned()
    found: dict[str, set[tuple[str, str]]] = {}
    for python in PYTHONS:
        for machine in MACHINES:
            wheels, missing = _ask(packages, python, machine)
            for name in missing:
                found.setdefault(name, set()).add((python, machine))
            packages = {name: version for name, version in packages.items() if not wheels.get(name, "").endswith("any")}
    return found


def _ask(packages: dict[str, str], python: str, machine: str) -> tuple[dict[str, str], set[str]]:
    """Return (the tags of the wheels found, the names of the packages without one)."""
    wanted, missing = dict(packages), set[str]()
    while True:
        done = _pip(wanted, python, machine)
        if not done.returncode:
            items = json.loads(done.stdout)["install"]
            urls = [(item["metadata"]["name"], item["download_info"]["url"]) for item in items]
            return {canonical(name): url.removesuffix(".whl").rpartition("-")[2] for name, url in urls}, missing
        refused = _MISSING.search(done.stderr)
        if refused is None:
            raise SystemExit(done.stderr or f"pip ended with {done.returncode}")
        name = canonical(refused[1])
        missing.add(name)
        del wanted[name]


def _pip(packages: Iterable[str], python: str, machine: str) -> subprocess.CompletedProcess[str]:
    known = pinned()
    manylinux = [f"manylinux_2_{glibc}_{machine}" for glibc in range(OLDEST_GLIBC, NEWEST_GLIBC + 1)]
    aliases = [f"{name}_{machine}" for name in ("manylinux2014", "manylinux2010", "manylinux1")]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
        command += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", python]
        command += [part for platform in (*manylinux, *aliases) for part in ("--platform", platform)]
        command += ["--target", folder, "--report", "-", *(f"{name}=={known[name]}" for name in packages)]
        return subprocess.run(command, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    for name, places in sorted(without_wheels().items()):
        print(f"{name}: {', '.join(f'{python} on {machine}' for python, machine in sorted(places))}")
