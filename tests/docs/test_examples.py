"""The examples of the README and of the guides give the shown answers when run one after another against a live
service, and a vector sent by Node as the guide shows it arrives unchanged."""

import json
import re
import shutil
import subprocess
from decimal import Decimal

import pytest
import requests

from schemas.documents import parse_embedding
from schemas.errors import InvalidInputError
from tests.clients.typescript_client import built_client
from tests.docs.examples import MORE, PROJECT, copy_beginnings, difference, examples, reader, script_runner
from tests.support.live import PATIENCE_SECONDS, live_service

GUIDE = "docs/api-guide.md"
VECTOR = "const vector = new Float32Array([9, 0.1, 0.2, 0.3]).subarray(1);"
"""A vector in the form in which libraries return it: a part of a longer buffer."""
PAGES = ("docs/context-tools.md", "docs/watching.md", "README.md", "docs/tutorial.md", GUIDE)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_answers_shown_are_the_answers_given(page, run):
    found = examples(PROJECT / page)
    assert found, f"{page} has no examples"
    for example in found:
        fault = example.fault(run(example.command))
        assert not fault, f"{page}:{example.line}: {fault}"


def test_the_same_in_javascript_gives_the_same_answers(run, run_script):
    """Where the guide shows no JavaScript, the command prepares what follows; the test above compares its answer."""
    found = examples(PROJECT / GUIDE)
    assert any(example.script for example in found)
    for example in found:
        if example.script is None:
            run(example.command)
            continue
        fault = example.fault(run_script(example.script))
        assert not fault, f"{GUIDE}:{example.line}: {fault}"


@pytest.fixture
def service(tmp_path_factory, processes):
    """A service of its own for each reading: what the last one left may seem to be there already."""
    with live_service(tmp_path_factory.mktemp("examples")) as service:
        yield service


@pytest.fixture
def run_script(service, tmp_path):
    return script_runner(service.url, tmp_path, built_client())


@pytest.fixture
def run(service, tmp_path):
    """`run(command)` runs a command as a reader would, in a folder with the beginnings of two of this project's
    documents as `docs` and its `examples`, and returns its output. The service has no collections, as a new one."""
    for each in requests.get(f"{service.url}/collections", timeout=PATIENCE_SECONDS).json()["collections"]:
        requests.delete(f"{service.url}/collections/{each['name']}", timeout=PATIENCE_SECONDS).raise_for_status()
    copy_beginnings(tmp_path / "docs")
    shutil.copytree(PROJECT / "examples", tmp_path / "examples")
    return reader(service.url, tmp_path)


@pytest.mark.parametrize(
    ("shown", "actual", "fault"),
    [
        (MORE, {"anything": [1]}, None),
        ("Backups…", "Backups are kept", None),
        ("Backups…", "Back", "answer is 'Back', shown as 'Backups…'"),
        (Decimal("0.01"), Decimal("0.0061"), None),
        (Decimal("0.01"), Decimal("0.0161"), "answer is 0.0161, shown as 0.01"),
        (Decimal("1.0"), 1, None),
        (1, True, "answer is True, shown as 1"),
        ({"a": 1, MORE: MORE}, {"a": 1, "b": 2}, None),
        ({"a": 1}, {"a": 1, "b": 2}, "answer.b is 2, shown as missing"),
        ({"a": 1, "b": 2, MORE: MORE}, {"a": 1}, "answer.b is missing, shown as 2"),
        ([1, MORE], [1, 2, 3], None),
        ([1, 2], [1], "answer[1] is missing, shown as 2"),
        ([{"a": [1, MORE]}], [{"a": [2]}], "answer[0].a[0] is 2, shown as 1"),
    ],
)
def test_a_shortened_answer_passes_and_a_difference_is_named(shown, actual, fault):
    assert difference(shown, actual) == fault


@pytest.fixture
def node():
    found = shutil.which("node")
    if found is None:
        pytest.skip("Node is not installed: what the guide shows for it is not tried")

    def run(code):
        script = f"{VECTOR} process.stdout.write({code})"
        return subprocess.run([found, "-e", script], capture_output=True, check=True, text=True).stdout

    return run


def test_vectors_as_the_guide_shows_them_arrive_and_a_bare_float32_array_is_refused_with_the_remedy(node):
    (shown,) = re.findall(r"```js\n(Buffer\..*?)```", (PROJECT / GUIDE).read_text(), re.DOTALL)
    assert parse_embedding(node(shown.strip())).tolist() == pytest.approx([0.1, 0.2, 0.3], rel=1e-7)
    with pytest.raises(InvalidInputError, match=r"Array\.from\(vector\)"):
        parse_embedding(json.loads(node("JSON.stringify(vector)")))
    vector = parse_embedding(json.loads(node("JSON.stringify(Array.from(vector))")))
    assert vector.tolist() == pytest.approx([0.1, 0.2, 0.3], rel=1e-7)
