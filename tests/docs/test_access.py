"""The page on access: its tables are the table of access, and what it says to type works."""

import pytest

from schemas.access.table import TOOLS
from tests.docs.access_tables import PAGE, with_tables
from tests.docs.examples import examples, reader
from tests.support.live import live_service


def test_the_tables_are_those_of_the_service():
    assert PAGE.read_text() == with_tables(PAGE.read_text()), "run python -m tests.docs.access_tables"


def test_the_tools_over_http_are_those_that_the_page_names(app):
    assert "four whose names begin with `rag_context_`" in PAGE.read_text()
    served = set(app.extensions["rag.layers"].tools)
    assert served == {name for name in TOOLS if name.startswith("rag_context_")}
    assert len(served) == 4


def test_what_the_page_says_to_type_gives_the_answers_shown(run):
    found = examples(PAGE)
    assert len(found) >= 10
    for example in found:
        fault = example.fault(run(example.command))
        assert not fault, f"docs/access.md:{example.line}: {fault}"


@pytest.fixture
def run(processes, tmp_path, monkeypatch):
    with live_service(tmp_path) as service:
        monkeypatch.setenv("RAG_DATA_DIR", str(service.data_dir))
        yield reader(service.url, tmp_path)
