"""The tests keep to their budget, and `make test` to its promises."""

import re
import subprocess
from pathlib import Path

import pytest

from interfaces.commands.scratch_service import scratch_service
from tests.support.chroma import ChromaServer
from tests.support.costs import Budget, lines_by_folder
from tests.support.gate import CASES, TIERS, TOGETHER
from tests.support.live import start_service
from tests.support.postgres import postgres_server, programs

PROJECT = Path(__file__).parents[2]
PRODUCT = ("schemas", "wrapper", "providers", "registry", "retrieval", "interfaces")
RAISE = "take something away, or raise in tests/budget.toml, for a reason that a reviewer sees,"
REFUSED = pytest.raises(AssertionError, match="must ask for the fixture `processes`")


def test_each_folder_keeps_to_its_lines():
    budget = Budget.load().folders
    lines = lines_by_folder()
    assert budget.keys() == lines.keys(), "tests/budget.toml has a row for each folder"
    more = {folder: count for folder, count in lines.items() if count > budget[folder]["lines"]}
    assert not more, f"{RAISE} `lines`: {more}"


def test_tests_have_at_most_nine_lines_for_ten_of_the_product_and_eighty_thousand():
    product = sum(len(file.read_bytes().splitlines()) for top in PRODUCT for file in (PROJECT / top).rglob("*.py"))
    lines, most = sum(lines_by_folder().values()), int(min(0.9 * product, 80_000))
    assert lines <= most, "take as many lines away as came"


def test_each_folder_keeps_to_its_cases(request):
    if CASES not in request.config.stash:
        pytest.skip("known only where all tests are collected")
    budget = Budget.load().folders
    counted = request.config.stash[CASES]
    more = {folder: count for folder, count in counted.items() if count > budget[folder]["cases"]}
    assert not more, f"{RAISE} `cases`: {more}"


def test_the_budget_has_a_row_for_each_promise():
    promises = re.findall(r"^### (.+)", (PROJECT / "docs/reliability.md").read_text(), re.MULTILINE)
    assert set(promises) <= set(Budget.load().promises)


def test_the_page_about_reliability_says_what_make_test_runs(request):
    if TIERS not in request.config.stash:
        pytest.skip("known only where all tests are collected")
    page = (PROJECT / "docs/reliability.md").read_text()
    rows = re.findall(r"^\| (\[test_.+?) \| (\w+) \|", page, re.MULTILINE)
    assert len(rows) == page.count("\n| [test_")
    wrong = []
    for files, said in rows:
        tiers = {request.config.stash[TIERS][file] for file in re.findall(r"\(\.\./(.+?)\)", files)}
        if (tiers.pop() if len(tiers) == 1 else "some") != said:
            wrong.append(files)
    assert wrong == []
    for promise in re.split(r"^### ", page, flags=re.MULTILINE)[1:]:
        assert {"all", "some"} & set(re.findall(r"^\| \[.+? \| (\w+) \|", promise, re.MULTILINE)), promise


def test_files_that_begin_first_and_folders_whose_files_share_a_service_are_there():
    files = Budget.load().longest_files
    assert files
    assert [file for file in files if not (PROJECT / "tests" / file).is_file()] == []
    assert [folder for folder in TOGETHER if not (PROJECT / folder).is_dir()] == []


def start_scratch_service(directory):
    with scratch_service(directory):
        pytest.fail("it started")


def start_postgres(directory):
    if programs() is None:
        pytest.skip("PostgreSQL is not installed here")
    with postgres_server():
        pytest.fail("it started")


@pytest.mark.parametrize(
    "start",
    [
        start_service,
        start_scratch_service,
        start_postgres,
        lambda directory: ChromaServer(directory).start(),
        lambda directory: subprocess.run(["rag-wrapper", "serve"], cwd=directory, check=False),
        lambda directory: subprocess.run(["npm", "ci"], cwd=directory, check=False),
    ],
    ids=["a service", "a scratch service", "PostgreSQL", "Chroma", "the command", "a package manager"],
)
def test_a_test_without_the_mark_starts_nothing_dear(tmp_path, start):
    with REFUSED:
        start(tmp_path)


def test_make_test_is_what_is_not_slow_and_the_proofs():
    recipes = dict(re.findall(r"^(test[-a-z]*): .*lint\n\t(.+)", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    assert recipes["test"].endswith('--budget -m "not slow or proof"')
    assert "-m " not in recipes["test-all"].replace("-m pytest", "")


def test_this_test_is_slow_because_it_asks_for_the_fixture(request, processes):
    assert request.node.get_closest_marker("slow") is not None
