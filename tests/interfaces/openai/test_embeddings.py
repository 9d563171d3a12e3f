"""`/v1/embeddings`, `/v1/models` and `/v1/files` as OpenAI's clients ask them, without those clients."""

import base64
import io
import uuid
from functools import partial

import numpy as np
import pytest

from retrieval.ingest.identity import document_id
from retrieval.kept_files.kept_files import KeptFiles, file_of, source_of
from schemas.access.owners import Asker
from schemas.contracts.kept_files import KeptFileNotFoundError
from schemas.errors import QuotaError
from schemas.storage.erasure import Target
from tests.support.commands import files_holding
from tests.support.model_server import as_json, openai_answer

MODEL = "all-MiniLM-L6-v2"
TEXTS = ["Backups are kept for thirty days.", "The coffee machine is cleaned every Friday."]


@pytest.fixture
def embed(client):
    def embed(status=200, **body):
        answer = client.post("/v1/embeddings", json={"model": MODEL, "input": TEXTS, **body})
        assert answer.status_code == status, answer.json
        assert answer.headers.get("x-should-retry") == (None if status < 400 else "false")
        return answer.json

    return embed


@pytest.fixture(scope="module")
def expected(app):
    return app.extensions["rag.layers"].connections.open("default", "embedding").embed(TEXTS)


def vectors(answer):
    assert [each["index"] for each in answer["data"]] == list(range(len(answer["data"])))
    return np.array([each["embedding"] for each in answer["data"]])


def test_vectors_are_those_of_the_model_as_floats_and_as_base64_of_little_endian_float32(embed, expected):
    answer = embed()
    np.testing.assert_allclose(vectors(answer), expected, atol=1e-6)
    assert (answer["model"], "truncated" in answer) == (MODEL, False)
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > len(TEXTS)
    packed = embed(encoding_format="base64")["data"]
    decoded = [np.frombuffer(base64.b64decode(each["embedding"]), "<f4") for each in packed]
    np.testing.assert_array_equal(np.array(decoded), vectors(answer).astype("<f4"))
    for single in (TEXTS[0], TEXTS[:1]):
        np.testing.assert_allclose(vectors(embed(input=single)), expected[:1], atol=1e-6)


def test_many_texts_are_embedded_in_their_order_and_nothing_of_a_text_is_kept(embed, app):
    texts = [f"text number {number}" for number in range(70)]
    expected = app.extensions["rag.layers"].connections.open("default", "embedding").embed(texts)
    np.testing.assert_allclose(vectors(embed(input=texts)), expected, atol=1e-5)
    word = uuid.uuid4().hex
    embed(input=f"secret {word}")
    assert files_holding(app.extensions["rag.service"].settings.data_dir, word) == []


def test_a_text_of_which_the_model_reads_the_beginning_only_is_named(embed, monkeypatch):
    monkeypatch.setattr("providers.embeddings.minilm.MAX_WINDOWS", 1)  # its vector proves nothing here
    answer = embed(input=["short", "long " * 9_000])
    assert (answer["truncated"], answer["usage"]["prompt_tokens"] > 9_000) == ([1], True)


def test_the_number_of_dimensions_is_that_of_the_model_and_unknown_names_are_ignored(embed):
    assert embed(dimensions=384)["data"]
    assert embed(user="me", encoding="float", inputs=["x"], encoding_format=None)["data"]
    refused = embed(400, dimensions=256)
    assert (refused["error"]["param"], refused["details"]["allowed"]) == ("dimensions", [384])


def test_tokens_are_refused_with_what_to_do(embed):
    for tokens in ([1, 2], [[1, 2], [3]], [[]], [1.5]):
        refused = embed(400, input=tokens)["error"]
        assert "check_embedding_ctx_length=False" in refused["message"]
        assert (refused["type"], refused["param"]) == ("invalid_request_error", "input")


def test_models_are_listed_and_shown_by_their_names_and_an_unknown_one_is_404_with_openais_code(client, embed):
    listed = client.get("/v1/models").json["data"]
    assert [each["id"] for each in listed if each["owned_by"] == "minilm"] == [MODEL]
    assert client.get(f"/v1/models/{MODEL}").json == listed[0]
    assert client.get("/v1/models/default").json == {**listed[0], "id": "default"}
    refused = embed(404, model="text-embedding-3-small")
    assert (refused["error"]["code"], refused["error"]["param"]) == ("model_not_found", "model")
    assert client.get("/v1/models/text-embedding-3-small").json["error"]["code"] == "model_not_found"


@pytest.fixture
def connected(client):
    """`connected(id, provider, config)` makes a connection for embeddings, which is deleted after the test."""
    made = []

    def connect(name, provider, config):
        body = {"id": name, "type": "embedding", "provider": provider, "config": config}
        assert client.post("/api/connections", json=body).status_code == 201
        made.append(name)

    yield connect
    for name in made:
        assert client.delete(f"/api/connections/{name}").status_code == 200


@pytest.mark.slow
def test_a_connection_may_be_called_what_a_client_insists_on(client, embed, expected, connected):
    connected("text-embedding-ada-002", "minilm", {"model": MODEL})
    answer = embed(model="text-embedding-ada-002")
    np.testing.assert_allclose(vectors(answer), expected, atol=1e-6)
    assert answer["model"] == "text-embedding-ada-002"
    names = [each["id"] for each in client.get("/v1/models").json["data"]]
    assert (names.count(MODEL), names.count("text-embedding-ada-002")) == (1, 1)


def test_a_service_that_takes_few_texts_is_asked_for_few_and_one_that_it_refuses_is_named(client, connected, models):
    def answer(body):
        if len(body["input"]) > 10:
            return as_json({"error": {"message": "it should not be larger than 10"}}, 400)
        refusal = as_json({"detail": [{"loc": ["body", "input"], "msg": "is bad"}]}, 422)
        return refusal if any("bad" in text for text in body["input"]) else openai_answer(body)

    models.routes["/v1/embeddings"] = answer
    connected("few", "openai", {"model": "few", "url": f"{models.url}/v1"})
    asked = {"model": "few", "input": [f"text {number}" for number in range(40)]}
    assert len(client.post("/v1/embeddings", json=asked).json["data"]) == 40
    asked["input"][35] = "bad text"
    answer = client.post("/v1/embeddings", json=asked)
    assert (answer.status_code, answer.json["error"]["param"], answer.json["details"]["index"]) == (400, "input", 35)
    assert "input[35], which begins “bad text”, is refused" in answer.json["error"]["message"]
    assert answer.json["error"]["message"].endswith("(HTTP 422): input: is bad")

    models.routes["/v1/embeddings"] = partial(openai_answer, meanings={"bad": [np.nan]})
    answer = client.post("/v1/embeddings", json=asked)
    assert (answer.status_code, answer.json["details"]["index"]) == (503, 35)
    assert answer.json["error"]["message"].endswith(" for input[35], which begins “bad text”")


NOBODY = "file-" + "0" * 32


@pytest.fixture
def keep(client):
    """`keep(name, content, status=…, **fields)`: the answer to an upload."""

    def keep(name="a.md", content=b"Backups are kept.", status=200, **fields):
        form = {"purpose": "assistants", "file": (io.BytesIO(content), name), **fields}
        answer = client.post("/v1/files", data={each: value for each, value in form.items() if value is not None})
        assert answer.status_code == status, answer.text
        return answer.json

    return keep


def test_a_file_is_kept_shown_and_deleted(client, keep):
    file = keep("notes/ü.md", b"\x00\xff any bytes")
    told = {"filename": "notes/ü.md", "bytes": 12, "purpose": "assistants", "status": "processed"}
    assert file.items() >= told.items()
    place = f"/v1/files/{file['id']}"
    assert client.get(place).json == file
    with client.get(f"{place}/content") as content:
        assert content.data == b"\x00\xff any bytes"
        assert (content.mimetype, content.headers["X-Content-Type-Options"]) == ("application/octet-stream", "nosniff")
    assert client.delete(place).json == {"id": file["id"], "object": "file", "deleted": True}
    assert [client.open(place, method=method).status_code for method in ("GET", "DELETE")] == [404, 404]
    assert client.get(f"{place}/content").json["error"]["code"] == "kept_file_not_found"


def test_a_list_goes_on_behind_a_file_that_is_gone_and_not_behind_what_is_none(client, keep):
    ids = [keep(purpose="user_data")["id"] for _ in range(5)]
    first = client.get("/v1/files?purpose=user_data&limit=2").json
    assert ([each["id"] for each in first["data"]], first["has_more"]) == (ids[:2:-1], True)
    for each in first["data"]:
        client.delete(f"/v1/files/{each['id']}")
    second = client.get(f"/v1/files?purpose=user_data&limit=5&after={first['last_id']}").json
    assert ([each["id"] for each in second["data"]], second["has_more"]) == (ids[2::-1], False)
    oldest = client.get("/v1/files?purpose=user_data&limit=1&order=asc").json
    assert (oldest["first_id"], oldest["has_more"]) == (ids[0], True)
    for after in ("", "zzz", "file-", "vs_" + 32 * "0", "file-" + 32 * "G"):
        answer = client.get("/v1/files", query_string={"after": after})
        assert (answer.status_code, answer.json["error"]["param"]) == (400, "after"), after
        assert answer.json["error"]["code"] == "invalid_cursor", after


ANCHOR, SECONDS = "expires_after[anchor]", "expires_after[seconds]"
WRONG = {
    "purpose": [{"purpose": None}, {"purpose": "mine"}],
    "file": [{"content": b""}, {"name": "../a.md"}, {"other": (io.BytesIO(b"x"), "b.md")}],
    ANCHOR: [{SECONDS: "3600"}],
    SECONDS: [{ANCHOR: "created_at"}, {ANCHOR: "created_at", SECONDS: "60"}],
    "porpose": [{"porpose": "batch", "purpose": None}],
}


def test_a_wrong_field_is_named_and_nothing_is_kept(client, keep):
    before = client.get("/v1/files").json
    for param, changes in WRONG.items():
        assert [keep(status=400, **each)["error"]["param"] for each in changes] == [param] * len(changes)
    form = {"purpose": "batch", "note": "x", "more": (io.BytesIO(b""), "")}
    assert client.post("/v1/files", data=form).status_code == 400
    assert client.get("/v1/files").json == before


@pytest.fixture
def kept(app, tmp_path):
    """`kept.files` with a clock `kept.now` that stands, in a data directory of its own."""

    class Kept:
        now = 1_000.0

        def __init__(self):
            self.folder = tmp_path
            limits = {"max_file_bytes": 100, "max_owner_bytes": 100}
            self.files = KeptFiles(app.extensions["rag.service"].catalog, tmp_path, **limits, clock=lambda: self.now)

        def add(self, name="a.md", lives_seconds=None, owner="alice"):
            with self.files.begin() as arriving:
                self.files.take(arriving, name, "text/markdown", [b"Some ", b"words"])
                return self.files.keep(arriving, "batch", lives_seconds, asker=Asker(owner))

    return Kept()


def test_what_arrived_and_was_not_finished_leaves_nothing_and_an_expired_file_is_gone_and_swept(kept):
    with kept.files.begin() as arriving:
        kept.files.take(arriving, "a.md", "", [b"x"])
    assert [each.name for each in (kept.folder / "files").iterdir()] == ["home"]
    file, stays = kept.add(lives_seconds=3_600), kept.add()
    path = kept.files.content(file)
    kept.now += 3_599
    assert kept.files.one(file.id, asker=Asker("alice")) == file
    kept.now += 1
    with pytest.raises(KeptFileNotFoundError):
        kept.files.one(file.id, asker=Asker("alice"))
    assert path.exists()
    kept.files.sweep()
    assert not path.exists()
    assert kept.files.content(stays).read_bytes() == b"Some words"


def test_the_files_of_one_owner_have_a_bound_that_expired_ones_and_those_of_others_do_not_count_against(kept):
    first, *_ = [kept.add(lives_seconds=60 + number, owner="carol") for number in range(10)]
    with pytest.raises(QuotaError, match="room for 0 bytes more") as caught:
        kept.add(owner="carol")
    assert (caught.value.details["limit"], caught.value.details["added"]) == ("files", 10)
    kept.add(owner="dave")
    kept.files.delete(first.id, asker=Asker("carol"))
    kept.now += 61
    assert [kept.add(owner="carol").size_bytes for _ in range(2)] == [10, 10]


def test_erasure_removes_the_files_of_documents_and_of_users(kept):
    of_document, of_user, other = kept.add("b.md"), kept.add(owner="bob"), kept.add("c.md")
    paths = {each.id: kept.files.content(each) for each in (of_document, of_user, other)}
    target = Target(collection="docs", document_ids=frozenset({document_id(source_of(of_document))}))
    held = kept.files.holders(target, set(paths.values()))
    assert held == {paths[each.id]: f"file '{each.id}'" for each in (of_user, other)}
    assert kept.files.erase(target) == 1
    assert kept.files.erase(Target(owner="bob")) == 1
    assert [path.exists() for path in paths.values()] == [False, False, True]


def test_only_the_document_of_a_file_tells_its_file(kept):
    source = source_of(kept.add())
    assert file_of(source, document_id(source)) == source.partition("/")[0]
    others = {source: "another", 3: "x", **{each: document_id(each) for each in (NOBODY, "wiki/a.md")}}
    for other, told in others.items():
        assert file_of(other, told) is None
