"""The unit of `deploy/systemd` is one that systemd takes, and leaves the service little but what it needs: it writes to
its data directory and to `/tmp`, and nowhere else, so that its root can be read-only."""

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
import yaml

from schemas.settings.known import known_settings
from tests.support.live import PATIENCE_SECONDS, eventually, start_service

PROJECT = Path(__file__).parents[2]
UNIT = PROJECT / "deploy" / "systemd" / "rag-wrapper.service"
MOST_EXPOSURE = 2.0
"""Of systemd's own scale from 0 to 10, where 10 is a unit without any hardening."""


@pytest.fixture
def analyzed():
    """`analyzed(arguments…)` returns what systemd-analyze prints; skips where there is none."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze here (Debian's package systemd)")

    def ask(*arguments):
        line = [program, "--no-pager", *map(str, arguments)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        return done.returncode, done.stdout + done.stderr

    return ask


def settings():
    """Return all values of each setting of the unit."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def test_systemd_takes_the_unit(analyzed, tmp_path):
    """But for the program, which is not installed here."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/rag-wrapper/bin/rag-wrapper", "/bin/true"))
    assert analyzed("verify", unit) == (0, "")
    unit.write_text(unit.read_text().replace("KillMode=mixed", "KillMode=all"))
    assert "kill mode" in analyzed("verify", unit)[1]


def test_systemd_finds_the_service_little_exposed(analyzed):
    """Each release of systemd counts a little differently; the page names what one of them said."""
    status, said = analyzed("security", "--offline=true", f"--threshold={MOST_EXPOSURE * 10:.0f}", UNIT)
    assert status == 0, said
    [told] = re.findall(r"exposure ([\d.]+)", (PROJECT / "docs" / "deploy.md").read_text())
    assert float(told) <= MOST_EXPOSURE


def test_the_unit_stops_as_slowly_as_the_service_in_its_directory_with_its_settings_and_a_user_of_its_own():
    compose = yaml.safe_load((PROJECT / "compose.yaml").read_text())
    grace = compose["services"]["rag-wrapper"]["stop_grace_period"]
    assert [f"{each}s" for each in settings()["TimeoutStopSec"]] == [grace]
    assert settings()["KillMode"] == ["mixed"], "all processes would be told at once, the engine among them"
    given = dict(each.split("=", 1) for line in settings()["Environment"] for each in line.split())
    assert {name for name in given if name.startswith("RAG_")} <= set(known_settings())
    [directory] = settings()["StateDirectory"]
    assert given["RAG_DATA_DIR"] == f"/var/lib/{directory}"
    [credential] = settings()["LoadCredential"]
    assert settings()["ExecStart"][0].endswith(f"serve --config %d/{credential.partition(':')[0]}")
    [line] = [each for each in UNIT.with_name("rag-wrapper.sysusers").read_text().splitlines() if each]
    kind, name, *_ = line.split()
    assert (kind, [name], [name]) == ("u", settings()["User"], settings()["Group"])


def test_backups_can_be_written_where_the_page_says():
    """All else is read-only, and a folder that is not there must not stop the start."""
    assert settings()["ProtectSystem"] == ["strict"]
    [writable] = settings()["ReadWritePaths"]
    assert writable.startswith("-/")
    folder = writable.removeprefix("-")
    page = (PROJECT / "docs" / "deploy.md").read_text()
    assert f"backup_dir: {folder}\\n" in page
    assert re.search(rf"install -d -m 700 -o (\S+) -g \1 {folder}$", page, re.MULTILINE)[1] == settings()["User"][0]


T = TypeVar("T")
OF_A_CONTAINER = (Path("/dev"), Path("/proc"))
"""What a container has to write to beside its root."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_CHANGES = sum(1 << bit for bit in (1, *range(4, 15)))
"""Writing, removing, making, moving and truncating (linux/landlock.h)."""
_NEEDED_VERSION = 3


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64),)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def writing_only_to(places: Iterable[Path], work: Callable[[], T]) -> T:
    """Return what the work returns, done by a thread of its own; skip the test where the kernel cannot do this."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION) < _NEEDED_VERSION:
        pytest.skip("this kernel has no Landlock that bounds truncating")

    def restricted() -> T:
        rules = libc.syscall(_CREATE_RULESET, ctypes.byref(_Ruleset(_CHANGES)), ctypes.c_size_t(8), 0)
        for place in places:
            opened = os.open(place, os.O_PATH)
            allowed = _CHANGES if place.is_dir() else _WRITE_FILE | _TRUNCATE
            assert libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(_PathBeneath(allowed, opened)), 0) == 0
            os.close(opened)
        assert libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        assert libc.syscall(_RESTRICT_SELF, rules, 0) == 0
        os.close(rules)
        return work()

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(restricted).result()


@pytest.fixture
def places(tmp_path, monkeypatch):
    for name in ("data", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "service.log").touch()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    return (tmp_path / "data", tmp_path / "tmp", tmp_path / "service.log", *OF_A_CONTAINER)


def test_a_write_to_elsewhere_would_be_refused(tmp_path, places):
    def write():
        (tmp_path / "data" / "here").write_text("written")
        with pytest.raises(PermissionError):
            (tmp_path / "elsewhere").write_text("refused")
        with pytest.raises(PermissionError):
            (tmp_path / "nobody").mkdir()

    writing_only_to(places, write)


def test_the_service_works_where_it_may_write_to_its_data_alone(tmp_path, places, processes):
    service = writing_only_to(places, lambda: start_service(tmp_path, workers=1, access="open"))
    try:
        with service.session() as session:
            gate = {"source": "house", "path": "/rules", "title": "Rules", "text": "The gate closes at nine."}
            assert session.post(f"{service.url}/api/rag/ingest", json=gate).status_code == 200
            with (PROJECT / "examples" / "gettysburg-address.pdf").open("rb") as file:
                taken = session.post(f"{service.url}/api/documents", files={"file": file})
            job = f"{service.url}/api/jobs/{taken.json()['job']['id']}"
            eventually(lambda: session.get(job).json()["status"] in ("done", "failed"), complaint=service.tail)
            assert session.get(job).json()["files"][0]["status"] == "done"
            asked = {"query": "When is the gate shut?", "limit": 1}
            [found] = session.post(f"{service.url}/api/search", json=asked).json()["results"]
            assert found["content"] == gate["text"]
            assert session.get(f"{service.url}/metrics").status_code == 200
    finally:
        assert service.stop() == 0
    assert {path.name for path in tmp_path.iterdir()} == {"data", "tmp", "service.log"}
    assert "denied" not in service.tail()
    assert list((tmp_path / "tmp").iterdir()) == [], "nothing is left"
