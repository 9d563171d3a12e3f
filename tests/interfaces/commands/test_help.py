"""Help and usage errors are quick, because nothing is imported for them that takes long. Packages are installed beside
others, and `schemas` is a name that others use. Commands that are asked what cannot be done, or are given the URL of
something else, say so in one sentence, with the exit code of a refusal."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from interfaces.cli import COMMANDS, PACKAGES, main
from providers.contract_tests.failures import STRANGE_BODIES
from providers.contract_tests.stub_server import serving
from tests.access.faults import all_faults
from tests.support.commands import run_command

PROBE = """
import json, sys
given = set(sys.modules)
from click.testing import CliRunner
from interfaces.cli import main
codes = [CliRunner().invoke(main, arguments).exit_code for arguments in json.loads(sys.argv[1])]
print(json.dumps([codes, sorted({name.partition(".")[0] for name in set(sys.modules) - given})]))
"""
OURS = {"interfaces", "retrieval", "schemas"}
LIGHT = {"click", "pydantic_core", "typing_extensions"}
"""The other packages that help needs: expressions come with the scopes of keys, which may have filters."""
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
    assert {"click", "interfaces"} <= imported <= OURS | LIGHT


def test_usage_errors_import_nothing_that_takes_long():
    codes, imported = probed(WRONG)
    assert codes == [2] * len(WRONG)
    assert {"click", "interfaces"} <= imported <= OURS | LIGHT


def test_an_option_that_is_no_list_is_given_once():
    """Of two, the last would count: one document of two that were named would be erased."""
    context, twice = click.Context(main), {}
    commands = {(name,): main.get_command(context, name) for name in COMMANDS}
    commands |= {(group, name): commands[group,].commands[name] for group in SUBCOMMANDS for name in SUBCOMMANDS[group]}
    for words, command in commands.items():
        for option in command.params:
            if isinstance(option, click.Option) and not (option.multiple or option.is_flag):
                done = CliRunner().invoke(main, [*words, *(option.opts[0], "1") * 2])
                twice[words, option.name] = (done.exit_code, "is given twice" in done.output)
    assert set(twice.values()) == {(2, True)}
    assert len(twice) > 60


ROOT = Path(__file__).parents[3]
RUN = "from interfaces.cli import main; main()"


def run(folder, *arguments):
    """Run the command line as it is installed from a wheel, with a folder that PYTHONPATH names first."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    command = [sys.executable, "-P", "-c", RUN, *arguments]
    return subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_that_hides_one_of_ours_is_named_with_its_file(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    done = run(tmp_path, "keys", "list")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: {tmp_path / name / '__init__.py'} hides the package '{name}' of rag-wrapper: "
        f"take {tmp_path} off PYTHONPATH, or give that package another name\n"
    )


def test_a_module_that_hides_one_of_ours_is_named_with_its_folder_and_a_folder_without_an_init_hides_nothing(tmp_path):
    (tmp_path / "retrieval.py").touch()
    done = run(tmp_path, "keys", "list")
    module = tmp_path / "retrieval.py"
    assert f"{module} hides the package 'retrieval' of rag-wrapper: take {tmp_path} off" in done.stderr
    module.unlink()
    (tmp_path / "schemas" / "mine").mkdir(parents=True)
    done = run(tmp_path, "collections", "--help")
    assert (done.returncode, done.stderr) == (0, "")


DEEP_FILTER = '{"a":' * 300 + "1" + "}" * 300


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["load", "missing"], "Path 'missing' does not exist"),
        (["load", "empty"], "contains no files that can be loaded"),
        (["load", "empty/a.gif"], "is of no kind that can be read"),
        (["load", "docs", "--collection", "x"], "Collection name"),
        (["load", "docs", "--url", "ftp://127.0.0.1"], "http"),
        (["load", "docs", "--embedding-model", "bge-m3"], "No such option '--embedding-model'"),
        (["load", "docs", "--profile", "whole"], "No such option '--profile'"),
        (["load", "docs/a.md", "--prune"], "--prune is for a folder"),
        (["watch", "missing"], "Error: Invalid value for 'DIR…': Directory 'missing' does not exist."),
        (["watch", ".", ".", "--name", "x"], "Error: --name is for one folder only."),
        (["watch", ".", "."], "Error: Two folders are called "),
        (["watch", ".", "--name", "a/b"], "Error: A folder cannot be called 'a/b': "),
        (["watch", ".", "--collection", "x"], "Error: Collection name must be"),
        (["watch", ".", "--max-file-mb", "3"], "Error: No such option '--max-file-mb'"),
        (["bench", "docs", "--weight", "lexical"], "'lexical' is not NAME=NUMBER"),
        (["bench", "docs", "--weight", "lexical=1", "--weight", "lexical=2"], "gives lexical twice"),
        (["bench", "docs", "--weight", "lexical=-1"], "'lexical=-1' is not finite or negative"),
        (["bench", "docs", "--weight", "lexical=nan"], "'lexical=nan' is not finite or negative"),
        (["bench", "docs", "--weight", f"lexical={10**400}"], "is not finite or negative"),
        (["bench", "docs", "--limit", "101"], "101 is not in the range 1<=x<=100"),
        (["bench", "docs", "--compare", "there-is-none"], "does not exist"),
        (["check", "no-such-collection"], "no-such-collection"),
        (["rebuild", "no-such-collection"], "no-such-collection"),
        (["rebuild"], "Error: "),
        (["rebuild", "docs", "--records", "lean"], "'lean' is not one of 'full', 'vectors'"),
        # Options that exclude each other.
        (["reembed", "docs", "--back", "--drop"], "Error: "),
        (["reembed", "docs", "--connection", "x", "--cancel"], "Error: "),
        (["reembed", "docs", "--wait", "--drop"], "Error: "),
        (["search", "x", "--where", "{"], "Invalid value for '--where': is not JSON"),
        (
            ["search", "x", "--where", f'{{"a": {2**65}}}'],
            "Invalid value for '--where': a is an integer beyond 64 bits",
        ),
        (["search", "x", "--where", DEEP_FILTER], "Invalid value for '--where': cannot be sent as JSON"),
        (["search", "x", "--where", '{"a": {"$nope": 1}}'], "$nope"),
        (["search", "x", "--top-k", "0"], "Invalid value for '--top-k'"),
        (["search", "x", "--min-relevance", "2"], "Invalid value for '--min-relevance'"),
        (["search", "x", "--collection", "nobodys"], "Collection 'nobodys' not found"),
        (["search", "x", "--oracle", "nobody"], "There is no oracle 'nobody'"),
        (["search", "x", "--rerank", "nobody"], "nobody"),
        (["search", "x", "--rerank", "\udcff"], "Invalid value for '--rerank': the text is not valid UTF-8"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(tmp_path, monkeypatch, url, arguments, said):
    monkeypatch.chdir(tmp_path)
    for path in ("docs/a.md", "empty/a.gif"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text("a")
    asked = [] if "--url" in arguments else ["--url", url]
    done = CliRunner().invoke(main, [*arguments, *asked])
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("Error: ") == 1


HALF = json.dumps({"collections": [{"name": "docs"}], "name": "docs", "rebuild": 5, "status": "ready"}).encode()
"""An answer that looks like that of an earlier release, whose collections have no revision."""
ASKING = {
    "check": [],
    "check of one": ["docs"],
    "rebuild": ["--all"],
    "rebuild of one": ["docs"],
    "export": ["{folder}/out"],
    "import": ["{folder}"],
}


@pytest.fixture
def folder(exported):
    """A folder with an export, and a folder with a text."""
    folder = exported(None)
    (folder / "texts").mkdir()
    (folder / "texts" / "a.md").write_text("# A\n\nWords.\n")
    return folder


def check_sentence(output, url, *others):
    sentences = (f"What answers at {url} is not this service: 200", f"The service at {url} answered", *others)
    assert any(sentence in output for sentence in sentences), output


@pytest.mark.parametrize("name", ASKING)
def test_a_command_says_that_something_else_answers(folder, name):
    given = [argument.format(folder=folder) for argument in ASKING[name]]
    with serving() as stub, all_faults() as case:
        for content in (*STRANGE_BODIES, HALF):
            with case(content):
                stub.answer = (200, {}, content)
                stub.requests.clear()
                done = CliRunner().invoke(main, [name.split()[0], *given, "--url", stub.url])
                assert stub.requests
                assert isinstance(done.exception, SystemExit), done.exception
                assert done.exit_code == 2, done.output
                check_sentence(done.output, stub.url)


@pytest.mark.parametrize(
    ("command", "content"), [("load", HALF), ("watch", b"{}"), ("validate", HALF), ("validate", b"<html>")]
)
def test_a_command_that_embeds_says_that_something_else_answers(folder, command, content, processes):
    given = {"load": (folder / "texts", "--collection", "docs"), "watch": (folder / "texts", "--once"), "validate": ()}
    with serving() as stub:
        stub.answer = (200, {}, content)
        done = run_command(command, *given[command], "--url", stub.url)
        assert stub.requests
    assert "Traceback" not in done.stderr
    assert done.returncode == (1 if command == "validate" and content == b"<html>" else 2), done
    others = (f"The service at {stub.url} is too old for this filter",) if content == HALF else ()
    check_sentence(done.stdout + done.stderr, stub.url, *others)
