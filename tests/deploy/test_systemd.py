"""The unit of `deploy/systemd` is one that systemd takes, and leaves the service little but what it needs."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from schemas.settings.known import known_settings
from tests.support.live import PATIENCE_SECONDS

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
