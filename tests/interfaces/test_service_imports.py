"""What the processes of a service import, and when: before the workers are forked, so that they share it. And what
`rag-wrapper mcp` imports until it has said which tools there are. What a start does before it is asked: the local model
is loaded when there is something to search, and measured by the operator's calibration, `RAG_EMBEDDING_CALIBRATION`; a
release that indexes words differently does so on an earlier one's data."""

import json
import subprocess
import sys

import numpy as np
import pytest

from interfaces.model_checks import check_models, own_calibrations
from schemas.errors import ConfigurationError
from schemas.records import DocumentBatch
from schemas.settings import RegistrySettings
from tests.support.apps import running_app
from tests.support.live import eventually, free_port, live_service
from tests.support.old_words import forget_words
from wrapper.catalog import writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.names import collection_writes
from wrapper.catalog.sqlite.database import SQLiteDatabase

OPTIONAL = """cryptography.x509 docutils httpx jwt lxml mcp mcp_types onnx onnxruntime opentelemetry psycopg
pydantic pypdfium2 qdrant_client rich.progress sqlalchemy.dialects.postgresql tiktoken tokenizers
watchfiles"""
"""What no service needs for its start, or for most of its requests: `cryptography.x509` is for a certificate of the
service, and the tokens of users."""

PROBE = """
import json, os, sys
from interfaces import compose
from interfaces import start_checks
from wrapper.serving import gunicorn_config, gunicorn_worker
compose.import_all()
imported = set(sys.modules)
made = set()
if sys.argv[1:] == ["create"]:
    compose.create_app().extensions["rag.service"].close()
    made = set(sys.modules) - imported
os.write(1, json.dumps([sorted(imported), sorted(made)]).encode())
"""


LISTING = """
import sys
from interfaces.commands.local_tools import LocalTools
from interfaces.mcp.server import described, serve_stdio, tool_server
from schemas.settings import AccessSettings, RegistrySettings, RetrievalSettings, WrapperSettings
tools = LocalTools(WrapperSettings(), RegistrySettings(), RetrievalSettings(), AccessSettings()).tools
tool_server(tools)
assert list(map(described, tools.values()))
print(sorted({"flask", "numpy", "requests", "sqlalchemy"} & set(sys.modules)))
"""


SERVING = """
import json, os, runpy, sys

class Watch:
    def find_spec(self, name, *_):
        if name == "numpy":
            told["threads"] = os.environ.get("OPENBLAS_NUM_THREADS")

def serving(module, **_):
    told["module"], told["arguments"], told["folder"] = module, sys.argv[1:], os.getcwd()

told = {}
sys.meta_path.insert(0, Watch())
runpy.run_module = serving
from interfaces.cli import main
main(["serve"], standalone_mode=False)
import numpy
os.write(1, json.dumps(told).encode())
"""


def probed(*arguments):
    """Return (the modules that a master imports, those that the application imports when it is made after that)."""
    done = subprocess.run([sys.executable, "-c", PROBE, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_service_imports_no_library_that_it_may_never_need():
    imported, _ = probed()
    assert {"interfaces.compose", "wrapper.app", "numpy", "flask"} <= set(imported)
    assert set(OPTIONAL.split()) & set(imported) == set()


@pytest.mark.executed
def test_workers_import_nothing_that_their_master_could_have_imported(processes, tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("RAG_PORT", str(free_port()))
    _, made = probed("create")
    assert [name for name in made if name.partition(".")[0] not in sys.stdlib_module_names] == []


@pytest.mark.slow
def test_mcp_lists_its_tools_without_what_their_work_needs():
    done = subprocess.run([sys.executable, "-c", LISTING], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_process_that_has_checked_becomes_gunicorns_master_and_numpy_works_with_one_thread(
    tmp_path, monkeypatch, pytestconfig
):
    """Whoever imports NumPy first: the variable is there."""
    monkeypatch.setenv("RAG_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("RAG_PORT", str(free_port()))
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    done = subprocess.run([sys.executable, "-c", SERVING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "module": "gunicorn",
        "arguments": ["-c", "python:wrapper.serving.gunicorn_config", "interfaces.compose:create_app()"],
        "folder": str(pytestconfig.rootpath),
        "threads": "1",
    }


CURVE = {"models": ["all-MiniLM-L6-v2"], "midpoint": 0.9, "slope": 50, "missing_words": 0, "min_relevance": 0.7}
QUESTION = {"query": "backups", "context_key": "a:b"}


def settings_of(tmp_path, content):
    file = tmp_path / "calibration.json"
    file.write_text(content)
    return RegistrySettings(embedding_calibration=str(file))


def test_without_the_setting_there_is_none():
    assert own_calibrations(RegistrySettings()) == {}


@pytest.mark.parametrize("content", ["{", "[]", json.dumps(CURVE | {"slope": -1})])
def test_a_faulty_file_stops_the_start_with_the_name_of_the_setting(tmp_path, content):
    with pytest.raises(ConfigurationError, match="RAG_EMBEDDING_CALIBRATION: "):
        check_models(settings_of(tmp_path, content))
    with pytest.raises(ConfigurationError, match=r"RAG_EMBEDDING_CALIBRATION: .*nowhere.* cannot be read"):
        check_models(RegistrySettings(embedding_calibration=str(tmp_path / "nowhere.json")))


def _model(app):
    return app.extensions["rag.layers"].connections.open("default", "embedding")


def test_a_service_with_texts_loads_the_model_before_it_is_asked_and_measures_by_the_curve_of_the_file(
    tmp_path, processes
):
    document = {"source": "handbook", "path": "/b", "title": "Backups", "text": "Backups run every night."}
    with running_app(tmp_path / "data") as app:
        assert _model(app)._loaded == {}
        assert app.test_client().post("/api/rag/ingest", json=document).status_code == 200
    with running_app(tmp_path / "data", registry=settings_of(tmp_path, json.dumps(CURVE))) as app:
        eventually(lambda: _model(app)._loaded != {})
        client = app.test_client()
        [found] = client.post("/api/rag/search", json={"query": "backups"}).json["results"]
        assert 0.5 < found["score"] < 0.9
        assert found["relevance"] < 0.5
        assert client.post("/api/rag/retrieve", json=QUESTION).json["meets_threshold"] is False
        [same] = client.post("/api/rag/retrieve", json=QUESTION | {"min_relevance": 0}).json["document_chunks"]
        assert same["relevance_score"] == pytest.approx(found["relevance"])


NAME = "books"
DOCUMENTS = 2_100
"""More documents than are indexed in one transaction."""


def _leave_words_of_before(data_dir):
    data_dir.mkdir()
    catalog = Catalog(SQLiteDatabase(data_dir / "catalog.sqlite"))
    catalog.open()
    batch = DocumentBatch(
        [str(number) for number in range(DOCUMENTS)],
        [f"text number{number}" for number in range(DOCUMENTS)],
        [{"title": f"title{number}"} for number in range(DOCUMENTS)],
        np.ones((DOCUMENTS, 2), dtype="<f4"),
    )
    catalog.commit(lambda transaction: collection_writes.create_collection(transaction, NAME, {}, "cosine"))
    catalog.commit(lambda transaction: writes.add_documents(transaction, NAME, batch))
    catalog.commit(lambda transaction: forget_words(transaction, 5, [NAME]))
    catalog.close()


def test_words_are_indexed_anew_before_the_port_opens_and_before_a_worker_has_a_time_limit(tmp_path, processes):
    _leave_words_of_before(tmp_path / "data")
    with live_service(tmp_path, workers=2) as service:
        lines = service.log.read_text().splitlines()
        begun, done, listening, first_worker = (
            next(number for number, line in enumerate(lines) if words in line)
            for words in (
                "reindexing the words of all documents",
                "the words of all documents are indexed",
                "Listening at",
                "Booting worker",
            )
        )
        assert begun < done < min(listening, first_worker)
        assert sum("the words of all documents are indexed" in line for line in lines) == 1
        with service.session() as session:
            for query, document in (("title7", "7"), ("number2099", "2099")):
                found = session.post(f"{service.url}/collections/{NAME}/text-search", json={"query": query}).json()
                assert [each["id"] for each in found["results"]] == [document]
