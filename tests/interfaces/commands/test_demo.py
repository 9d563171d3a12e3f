import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from interfaces.commands import scratch_service as scratch
from interfaces.commands.demo import COLLECTION, Demo, WrongAnswerError, copy_documentation, expected_documents
from providers.embeddings.minilm import MiniLMProvider
from retrieval.ingest.drafts import text_to_embed
from schemas.errors import ConfigurationError, UnavailableError
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.retrieval.model_store import ModelProvider, ModelStore
from tests.retrieval.stored_folder import store_folder
from tests.support.live import PATIENCE_SECONDS

MODEL = "all-MiniLM-L6-v2"

README = "# Store\n\nIntro.\n\n## Safety\n\nWhat was acknowledged survives a kill.\n\n" + "More of it. " * 200


class AnsweringStore(ModelStore):
    """The model with the queries of the demo, right by construction."""

    def query(self, name, embedding, *, top_k, gather=None):
        distances = {}
        for key, document in self.stored[name].items():
            vector = np.array(document["embedding"])
            distances[key] = float(1 - vector @ embedding / np.linalg.norm(vector) / np.linalg.norm(embedding))
        nearest = sorted(distances, key=distances.get)[:top_k]
        results = [
            self.stored[name][key] | {"distance": distances[key], "score": 1 - distances[key] / 2} for key in nearest
        ]
        groups = []
        for section_id in dict.fromkeys(hit["metadata"]["section_id"] for hit in results):
            documents = self.documents(name, {"section_id": section_id}, order_by=["chunk_index"])
            documents = [document | {"hit": document["id"] in nearest} for document in documents]
            groups.append({"key": section_id, "documents": documents, "complete": True})
        return {"results": results, "groups": groups, "plan": "index"}

    def page(self, name, where, *, order_by, limit):
        found = list(self.documents(name, {"source": where["source"]}, order_by=order_by))
        found = [document for document in found if document["metadata"]["chunk_index"] >= 1]
        return {"documents": found[:limit], "count": len(found[:limit]), "total": len(found)}

    def facets(self, name, fields):
        counts = Counter(document["metadata"]["source"] for document in self.documents(name))
        values = [{"value": value, "count": count} for value, count in counts.most_common()]
        return {"facets": {"source": {"values": values}}, "total": sum(counts.values())}


@pytest.fixture
def folder(tmp_path):
    project = tmp_path / "project"
    (project / "docs").mkdir(parents=True)
    (project / "README.md").write_text(README)
    (project / "secret.md").write_text("# Not documentation")
    (project / "docs" / "api.md").write_text("# Api\n\nxyz\n\n## Errors\n\nzzz")
    copy_documentation(project, tmp_path / COLLECTION)
    return tmp_path / COLLECTION


@pytest.fixture
def store(folder):
    store = AnsweringStore()
    provider = ModelProvider(store)
    store_folder(folder, provider, LetterEmbedding(MODEL), collection=COLLECTION)
    return store


@pytest.fixture
def demo(store, folder):
    return Demo(store, expected_documents(folder, LetterEmbedding(MODEL)), Console(quiet=True))


@pytest.fixture
def question(folder):
    draft = next(draft for draft in expected_documents(folder, LetterEmbedding(MODEL)) if "acknowledged" in draft.text)
    return LetterEmbedding().embed([text_to_embed(draft.text, draft.metadata)])[0]


def steps(demo, question):
    return {
        "query": lambda: demo.show_query(question),
        "gather": lambda: demo.show_gather(question),
        "page": demo.show_page,
        "facets": demo.show_facets,
    }


def test_only_documentation_is_copied_and_expected_and_right_answers_pass_every_check(folder, demo, question):
    assert {draft.metadata["source"] for draft in expected_documents(folder, LetterEmbedding(MODEL))} == {
        f"{folder.name}/README.md",
        f"{folder.name}/docs/api.md",
    }
    for step in steps(demo, question).values():
        step()
    assert demo.checks == 14


def drop_first(answer, field):
    answer[field] = answer[field][1:]


def swap_chunks(answer):
    answer["groups"][0]["documents"].reverse()


def unmark(answer):
    for document in answer["groups"][0]["documents"]:
        document["hit"] = False


@pytest.mark.parametrize(
    ("step", "method", "damage", "claim"),
    [
        ("query", "query", lambda answer: answer["results"].reverse(), "nearest of all"),
        ("query", "query", lambda answer: answer["results"][0].update(score=0.0), "a score is"),
        ("query", "query", lambda answer: answer["results"][0].update(text="else"), "text is the file's"),
        ("gather", "query", lambda answer: drop_first(answer, "groups"), "best hit's section"),
        ("gather", "query", lambda answer: drop_first(answer["groups"][0], "documents"), "whole section"),
        ("gather", "query", swap_chunks, "reading order"),
        ("gather", "query", lambda answer: answer["groups"][0].update(complete=False), "whole section"),
        ("gather", "query", lambda answer: answer["groups"][0]["documents"][0].update(text="x"), "its texts"),
        ("gather", "query", unmark, "is marked"),
        ("page", "page", lambda answer: answer.update(total=answer["total"] + 1), "exact number"),
        ("page", "page", lambda answer: answer["documents"].reverse(), "last first"),
        ("facets", "facets", lambda answer: answer["facets"]["source"]["values"].pop(), "each source"),
        ("facets", "facets", lambda answer: answer["facets"]["source"]["values"].reverse(), "most frequent"),
    ],
)
def test_a_wrong_answer_is_named(store, demo, question, step, method, damage, claim):
    right = getattr(store, method)

    def wrong(*args, **kwargs):
        answer = right(*args, **kwargs)
        damage(answer)
        return answer

    setattr(store, method, wrong)
    with pytest.raises(WrongAnswerError, match=claim):
        steps(demo, question)[step]()


SERVE = """
import json, os, signal, subprocess, sys, http.server
if "{mode}" == "orphan":
    subprocess.Popen(["sleep", "300"], start_new_session=True)
if "{mode}" == "broken":
    sys.exit("cannot start: no luck")
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({{"status": "healthy"}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("settings:", sorted(name for name in os.environ if name.startswith("RAG_")), flush=True)
http.server.HTTPServer(("127.0.0.1", int(os.environ["RAG_PORT"])), Health).serve_forever()
"""


@pytest.fixture
def serve_as(monkeypatch):
    def serve_as(mode):
        program = [sys.executable, "-c", SERVE.format(mode=mode)]
        monkeypatch.setattr(scratch, "command", lambda *arguments: program)

    return serve_as


def test_a_scratch_service_has_only_its_own_settings_and_is_gone_afterwards(serve_as, monkeypatch, tmp_path):
    monkeypatch.setenv("RAG_CATALOG_URL", "postgresql://precious")
    serve_as("well")
    with scratch.scratch_service(tmp_path) as service:
        assert scratch.processes_in(tmp_path)
        assert "settings: ['RAG_DATA_DIR', 'RAG_HOST', 'RAG_PORT']" in service.log_tail
    assert scratch.processes_in(tmp_path) == []


def test_a_service_that_cannot_start_is_quoted_and_a_process_left_behind_told_and_ended(serve_as, tmp_path):
    serve_as("broken")
    with (
        pytest.raises(UnavailableError, match="exit code 1:\ncannot start: no luck"),
        scratch.scratch_service(tmp_path),
    ):
        pytest.fail("it did not start")
    serve_as("orphan")
    with pytest.raises(UnavailableError, match="left processes behind"), scratch.scratch_service(tmp_path):
        assert len(scratch.processes_in(tmp_path)) == 2
    assert scratch.processes_in(tmp_path) == []


def has_local_model():
    try:
        MiniLMProvider({}).close()
    except ConfigurationError:
        return False
    return True


@pytest.mark.skipif(not has_local_model(), reason="the local embedding model is not installed: see docs/providers.md")
def test_the_demo_succeeds_on_a_part_of_this_projects_documentation(processes, tmp_path):
    """Two pages are enough: to embed more proves no more."""
    project = Path(__file__).parents[3]
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/how-to.md"):
        shutil.copy(project / name, tmp_path / name)
    command = [sys.executable, "-m", "interfaces.commands.demo", tmp_path]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS * 2, cwd=project, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "checks hold" in result.stdout
