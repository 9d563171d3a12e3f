"""Help and usage errors are quick, because nothing is imported for them that takes long."""

import json
import subprocess
import sys

from interfaces.cli import COMMANDS

PROBE = """
import json, sys
given = set(sys.modules)
from click.testing import CliRunner
from interfaces.cli import main
codes = [CliRunner().invoke(main, arguments).exit_code for arguments in json.loads(sys.argv[1])]
print(json.dumps([codes, sorted({name.partition(".")[0] for name in set(sys.modules) - given})]))
"""
OURS = {"interfaces", "retrieval", "schemas"}
LIGHT = {"click", "re2"}
"""The other packages that help needs: RE2 comes with the scopes of keys, which may have filters."""
SUBCOMMANDS = {"keys": ("create", "list", "show", "rotate", "revoke"), "secrets": ("list", "rotate")}
WRONG = (
    ("unheard-of",),
    ("load",),
    ("watch", ".", "--debounce-seconds", "soon"),
    ("search", "question", "--limit", "many"),
    ("bench", "folder", "--weight", "words"),
    ("export", "--unheard-of"),
    ("keys", "unheard-of"),
    ("mcp", "--config", "/nowhere"),
    ("serve", "--config", "/nowhere"),
)


def probed(calls):
    """Call the commands one after another in a new interpreter. Return (their exit codes, the packages imported)."""
    done = subprocess.run([sys.executable, "-c", PROBE, json.dumps(calls)], capture_output=True, text=True, check=True)
    codes, imported = json.loads(done.stdout)
    return codes, {name for name in imported if name not in sys.stdlib_module_names}


def test_help_imports_nothing_that_takes_long():
    calls = [["--help"], *([name, "--help"] for name in COMMANDS)]
    calls += [[group, name, "--help"] for group, names in SUBCOMMANDS.items() for name in names]
    codes, imported = probed(calls)
    assert codes == [0] * len(calls)
    assert imported <= OURS | LIGHT


def test_usage_errors_import_nothing_that_takes_long():
    codes, imported = probed(WRONG)
    assert codes == [2] * len(WRONG)
    assert imported <= OURS | LIGHT


def test_the_probe_sees_what_a_command_imports_for_its_work(tmp_path):
    codes, imported = probed(
        [["validate", "--gate", str(tmp_path / "none.yaml")], ["keys", "list", "--config", __file__]]
    )
    assert codes == [2, 2]
    assert "marshmallow" in imported
