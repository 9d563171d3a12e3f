"""The `qdrant` provider copes with what only Qdrant has: foreign collections, shared folders, servers of other
releases."""

import shutil
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from providers.base import ProviderContext
from providers.contract_tests.samples import batch
from providers.qdrant.provider import QdrantProvider
from schemas.errors import BusyError, InvalidInputError, UnsupportedError
from schemas.records import DocumentBatch
from schemas.where import parse_where
from tests.providers.contracts.qdrant_server import KEY, QdrantServer
from tests.support.http_stub import running
from tests.support.live import PATIENCE_SECONDS

PROCESSES, WRITES = 3, 4


@pytest.fixture
def server():
    with running(QdrantServer()) as server:
        yield server


@pytest.fixture
def provider(server):
    with QdrantProvider({"url": server.url, "api_key": KEY}, sleep=lambda seconds: None) as provider:
        yield provider


@pytest.fixture
def foreign(server):
    """Points as other programs store them: LangChain, LlamaIndex, and by hand."""
    server.client.create_collection("theirs", models.VectorParams(size=2, distance=models.Distance.EUCLID))
    uuid = "12345678-1234-5678-1234-567812345678"
    server.client.upsert(
        "theirs",
        [
            models.PointStruct(id=1, vector=[0, 1], payload={"page_content": "one", "metadata": {"source": "a"}}),
            models.PointStruct(id=2, vector=[0, 2], payload={"text": "two", "source": "a", "n": 1.0}),
            models.PointStruct(id=uuid, vector=[0, 3], payload={"content": "three", "tags": ["a"]}),
            models.PointStruct(id=4, vector=[0, 4], payload=None),
        ],
    )
    return "theirs", uuid


def test_foreign_collections_are_read_and_their_points_deleted_by_ids(provider, foreign):
    name, uuid = foreign
    assert (provider.collection(name).metric, provider.collection(name).dimension) == ("l2", 2)
    found = {each.id: (each.text, each.metadata) for each in provider.documents(name).documents}
    assert found == {
        "1": ("one", {"metadata": {"source": "a"}}),
        "2": ("two", {"source": "a", "n": 1.0}),
        uuid: ("three", {"tags": ["a"]}),
        "4": ("", {}),
    }
    nearest = provider.search(name, np.array([0, 0], "f4"), top_k=2)
    assert [(each.document.text, each.distance) for each in nearest] == [("one", 1), ("two", 4)]
    provider.add_documents(name, batch(("2", {}), ("01", {}), dimension=2))
    provider.delete_documents(name, ids=["1", uuid, "01"])
    assert sorted(each.id for each in provider.documents(name).documents) == ["2", "2", "4"]
    provider.delete_documents(name, ids=["2"])
    assert [each.id for each in provider.documents(name).documents] == ["4"]


def test_filters_apply_to_foreign_points_and_ours_alike(provider, foreign):
    name, uuid = foreign
    provider.add_documents(name, batch(("ours", {"source": "a", "n": 1, "metadata": {"source": "b"}}), dimension=2))
    for where, expected in (
        ({"source": "a"}, {"2", "ours"}),
        ({"metadata.source": "a"}, {"1"}),
        ({"metadata.source": {"$ne": "a"}}, {"2", uuid, "4", "ours"}),
        ({"n": 1}, {"2", "ours"}),
        ({"tags": {"$contains": "a"}}, {uuid}),
        ({"tags": "a"}, set()),
        ({"document": {"$exists": True}}, set()),
    ):
        assert {each.id for each in provider.documents(name, parse_where(where)).documents} == expected, where


@pytest.mark.parametrize(
    "vectors",
    [
        {"a": models.VectorParams(size=2, distance="Dot"), "b": models.VectorParams(size=2, distance="Dot")},
        models.VectorParams(size=2, distance="Manhattan"),
        {"a": models.VectorParams(size=2, distance="Dot", multivector_config={"comparator": "max_sim"})},
        {},
    ],
    ids=["several", "manhattan", "multivector", "none"],
)
def test_collections_whose_vectors_have_no_score_are_listed_and_refused(provider, server, vectors):
    server.client.create_collection("theirs", vectors)
    assert provider.collection("theirs") in provider.collections()
    for ask in (
        lambda: provider.search("theirs", np.ones(2, "f4")),
        lambda: provider.add_documents("theirs", batch(("a", {}), dimension=2)),
    ):
        with pytest.raises(UnsupportedError, match="no vector, several, or one of a metric other than"):
            ask()
    assert provider.documents("theirs").total == 0


def test_the_only_vector_of_a_collection_may_have_a_name(provider, server):
    server.client.create_collection("theirs", {"words": models.VectorParams(size=2, distance="Dot")})
    provider.add_documents("theirs", batch(("a", {}, [1, 2])))
    (found,) = provider.documents("theirs", with_embeddings=True).documents
    assert found.embedding.tolist() == [1, 2]
    (match,) = provider.search("theirs", np.array([1, 1], "f4"))
    assert match.distance == -2


def test_an_empty_list_counts_as_absent_and_embeddings_of_cosine_collections_come_back_with_length_1(provider):
    provider.create_collection("docs", {})
    provider.add_documents(
        "docs", batch(("empty", {"a": []}), ("null", {"a": None}), ("none", {}), ("one", {"a": [1]}))
    )
    assert {each.id for each in provider.documents("docs", parse_where({"a": {"$exists": True}})).documents} == {
        "null",
        "one",
    }
    assert "empty list" in QdrantProvider.limits["filters"]
    provider.create_collection("cosines", {})
    provider.add_documents("cosines", batch(("a", {}, [3, 4]), ("zero", {}, [0, 0])))
    found = {each.id: each.embedding for each in provider.documents("cosines", with_embeddings=True).documents}
    assert found["a"].tolist() == pytest.approx([0.6, 0.8])
    assert {match.document.id: match.distance for match in provider.search("cosines", np.array([6, 8], "f4"))} == {
        "a": pytest.approx(0, abs=1e-6),
        "zero": 1,
    }


def test_the_first_documents_set_the_dimension(provider, server):
    QdrantProvider({"url": server.url}).close()
    assert server.requests == [], "before it is needed"
    provider.create_collection("docs", {})
    raced = models.DenseVectorNameConfig(dense=models.DenseVectorConfig(size=3, distance="Cosine"))
    get_collection = server.client.get_collection

    def come_between(name):
        server.client.get_collection = get_collection
        found = get_collection(name)
        server.client.create_vector_name(name, "embedding", raced)
        return found

    server.client.get_collection = come_between
    with pytest.raises(InvalidInputError, match="has 3, got 4"):
        provider.add_documents("docs", batch(("a", {})))
    provider.add_documents("docs", batch(("a", {}), dimension=3))


def test_a_server_that_cannot_add_a_vector_later_is_too_old(provider, server):
    provider.create_collection("docs", {})
    route = server._route

    def without_vectors(method, path, body):
        if "/vectors/" in path:
            raise LookupError(path)
        return route(method, path, body)

    server._route = without_vectors
    with pytest.raises(UnsupportedError, match="too old"):
        provider.add_documents("docs", batch(("a", {})))


PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from providers.base import ProviderContext
from providers.qdrant.provider import QdrantProvider
from schemas.records import DocumentBatch

provider = QdrantProvider({"path": "shared"}, ProviderContext(data_dir=Path(sys.argv[1])))
for number in range(int(sys.argv[3])):
    document_id = f"{sys.argv[2]}-{number}"
    provider.add_documents("docs", DocumentBatch([document_id], [""], [{}], np.ones((1, 2), "f4")))
    assert provider.documents("docs").total > number
"""


@pytest.mark.slow
def test_processes_share_a_folder(tmp_path):
    provider = QdrantProvider({"path": "shared"}, ProviderContext(data_dir=tmp_path))
    provider.create_collection("docs", {})
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path), str(number), str(WRITES)],
            cwd=Path(__file__).parents[3],
            stderr=subprocess.PIPE,
        )
        for number in range(PROCESSES)
    ]
    for process in started:
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, said.decode()
    found = {each.id for each in provider.documents("docs").documents}
    assert found == {f"{number}-{write}" for number in range(PROCESSES) for write in range(WRITES)}


def test_a_folder_in_use_by_another_process_is_busy(tmp_path):
    config, context = {"path": "shared", "timeout_seconds": 0.1}, ProviderContext(data_dir=tmp_path)
    first, second = QdrantProvider(config, context), QdrantProvider(config, context)
    with first._client(), pytest.raises(BusyError) as raised:
        second.collections()
    assert raised.value.details["error_type"] == "timeout"
    assert second.collections() == []


@pytest.mark.parametrize("path", ["..", "a/b", "/tmp", "a\\b", ""])
def test_a_folder_lies_in_the_data_directory(tmp_path, path):
    with pytest.raises(InvalidInputError):
        QdrantProvider({"path": path}, ProviderContext(data_dir=tmp_path))
    with pytest.raises(InvalidInputError):
        QdrantProvider({"path": "a", "url": "http://127.0.0.1:6333"}, ProviderContext(data_dir=tmp_path))


ONE = DocumentBatch(["a"], ["text"], [{}], np.ones((1, 2), "f4"))


def files_of(directory):
    return {path.relative_to(directory): path.is_file() and path.read_bytes() for path in directory.rglob("*")}


@pytest.mark.parametrize("path", ["new", "chroma", "qdrant"])
def test_trying_out_a_folder_leaves_the_disk_unchanged_and_its_path_leads_to_no_other_folder(tmp_path, path):
    (tmp_path / "chroma").mkdir()
    (tmp_path / "chroma" / "chroma.sqlite3").write_text("the engine's own")
    before = files_of(tmp_path)
    with QdrantProvider({"path": path}, ProviderContext(data_dir=tmp_path, is_trial=True)) as provider:
        assert (provider.check()["collections_count"], provider.try_out()["collections_count"]) == (0, 0)
    assert files_of(tmp_path) == before
    QdrantProvider({"path": path}, ProviderContext(data_dir=tmp_path)).create_collection("docs", {})
    assert [path.name for path in (tmp_path / "chroma").iterdir()] == ["chroma.sqlite3"]
    assert (tmp_path / "qdrant" / path / "meta.json").is_file()


@pytest.mark.parametrize("path", ["books", "qdrant"])
def test_the_folder_of_an_earlier_release_is_found_again(tmp_path, path):
    with closing(QdrantClient(path=str(tmp_path / path))) as client:
        client.create_collection("docs", vectors_config={}, metadata={"rag:metric": "cosine"})
    context = ProviderContext(data_dir=tmp_path)
    tried = QdrantProvider({"path": path}, replace(context, is_trial=True))
    assert [each.name for each in tried.collections()] == ["docs"]
    assert (tmp_path / path / "meta.json").exists()
    other, provider = QdrantProvider({"path": "collection"}, context), QdrantProvider({"path": path}, context)
    assert other.collections() == []
    provider.add_documents("docs", ONE)
    assert provider.collection("docs").count == 1
    assert QdrantProvider({"path": path}, context).collection("docs").count == 1
    assert not (tmp_path / path / "meta.json").exists()


def test_moving_the_folder_of_an_earlier_release_may_be_interrupted(tmp_path):
    folder = tmp_path / "qdrant"
    with closing(QdrantClient(path=str(folder))) as client:
        client.create_collection("docs", vectors_config={}, metadata={"rag:metric": "cosine"})
    for part in ("collection", "meta.json"):
        (folder / "qdrant.moving").mkdir(exist_ok=True)
        (folder / part).rename(folder / "qdrant.moving" / part)
        if part == "collection":
            copy = shutil.copytree(tmp_path, tmp_path.with_name("halfway"))
    for data_dir in (tmp_path, copy):
        provider = QdrantProvider({"path": "qdrant"}, ProviderContext(data_dir=data_dir))
        assert [each.name for each in provider.collections()] == ["docs"]
