"""`POST documents` as NDJSON stores good lines and reports bad lines by their number."""

import gzip
import json

import pytest

from tests.support.live import eventually
from wrapper.store import Store
from wrapper.web import line_streams


def _line(number, **fields):
    return json.dumps({"id": f"doc-{number}", "text": f"text {number}", "embedding": [1.0, float(number)], **fields})


@pytest.fixture
def parts(monkeypatch):
    """A list that grows with every transaction of a stream."""
    parts = []
    monkeypatch.setattr(
        Store, "add_part", lambda *args, add=Store.add_part, **more: parts.append(1) or add(*args, **more)
    )
    return parts


@pytest.fixture
def stream(client):
    def stream(name, lines, *, headers=None, **arguments):
        body = lines if isinstance(lines, bytes) else "\n".join(lines).encode()
        return client.post(
            f"/collections/{name}/documents",
            data=body,
            content_type="application/x-ndjson",
            headers=headers,
            query_string=arguments,
        )

    return stream


def _ids(client, name):
    return {each["id"] for each in client.get(f"/collections/{name}/documents?limit=1000").json["documents"]}


def test_good_lines_are_stored(stream, client, chroma, filled):
    name = filled()
    answer = stream(name, [_line(0), _line(1, metadata={"page": 1})])
    assert answer.status_code == 201
    told = {"count": 2, "ids": ["doc-0", "doc-1"], "created": 2, "indexed": True, "errors": [], "errors_total": 0}
    assert answer.json | told == answer.json
    assert _ids(client, name) == {"doc-0", "doc-1"}
    assert chroma.get_collection(name, embedding_function=None).count() == 2


@pytest.mark.parametrize("route", ["documents", "import"])
def test_a_stream_never_goes_into_a_later_collection_of_the_same_name(client, filled, monkeypatch, route):
    name = filled()
    add_part = Store.add_part

    def replaced_meanwhile(store, collection, *args, **options):
        done = add_part(store, collection, *args, **options)
        if not replaced:
            replaced.append(client.delete(f"/collections/{name}").status_code)
            replaced.append(client.post("/collections", json={"name": name}).status_code)
        return done

    replaced = []
    monkeypatch.setattr(Store, "add_part", replaced_meanwhile)
    lines = "\n".join(_line(number) for number in range(501)).encode()
    answer = client.post(f"/collections/{name}/{route}", data=lines, content_type="application/x-ndjson")
    assert replaced == [200, 201]
    assert (answer.status_code, answer.json["code"]) == (404, "collection_not_found")
    assert (answer.json["details"]["count"], answer.json["details"]["line"]) == (500, 501)
    assert client.get(f"/collections/{name}").json["count"] == 0


BAD_LINES = {
    "no json": ("{", "invalid_json"),
    "no utf-8": (b"\xff\xfe", "invalid_json"),
    "NaN": ('{"text": "x", "embedding": [NaN, 1]}', "invalid_json"),
    "no object": ("[1]", "invalid_document"),
    "no text": ('{"embedding": [1, 2]}', "invalid_text"),
    "no embedding": ('{"text": "x"}', "embedding_required"),
    "a bad embedding": ('{"text": "x", "embedding": ["1"]}', "invalid_embedding"),
    "a zero vector": ('{"text": "x", "embedding": [0, 0]}', "zero_vector"),
    "another dimension": ('{"text": "x", "embedding": [1]}', "dimension_mismatch"),
    "bad metadata": ('{"text": "x", "embedding": [1, 2], "metadata": 7}', "invalid_metadata"),
    "a bad id": ('{"id": 7, "text": "x", "embedding": [1, 2]}', "invalid_id"),
}


def test_bad_lines_are_reported_by_number_and_the_others_kept(stream, client, filled):
    name = filled()
    lines = [_line(1_000).encode()]
    for bad, _ in BAD_LINES.values():
        lines += [bad if isinstance(bad, bytes) else bad.encode(), b"", _line(len(lines)).encode()]
    answer = stream(name, b"\r\n".join(lines))
    assert answer.status_code == 201
    assert answer.json["count"] == answer.json["created"] == 1 + len(BAD_LINES)
    wrong = [(3 * number + 2, code) for number, (_, code) in enumerate(BAD_LINES.values())]
    assert [(each["line"], each["code"]) for each in answer.json["errors"]] == wrong
    assert answer.json["errors_total"] == len(BAD_LINES)
    assert all(each["message"] for each in answer.json["errors"])
    assert client.get(f"/collections/{name}").json["count"] == 1 + len(BAD_LINES)


@pytest.mark.parametrize(
    ("lines", "code", "wrong"),
    [
        ([], "documents_required", None),
        (["", "  ", ""], "documents_required", None),
        (["{", '{"text": "x"}'], "no_good_line", [1, 2]),
    ],
    ids=["nothing", "blank lines", "bad lines"],
)
def test_a_stream_without_a_document_is_refused(stream, filled, unchanged, lines, code, wrong):
    name = filled()
    with unchanged(name):
        answer = stream(name, lines)
    assert (answer.status_code, answer.json["code"]) == (400, code)
    if wrong is not None:
        assert [each["line"] for each in answer.json["details"]["errors"]] == wrong
        assert answer.json["details"]["errors_total"] == len(wrong)


def test_a_long_stream_goes_in_transactions_of_500_also_when_it_is_gzip(stream, client, filled):
    name = filled()
    body = gzip.compress("\n".join(_line(number) for number in range(1_750)).encode())
    answer = stream(name, body, headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json["count"], answer.json["revision"]) == (201, 1_750, 5)
    assert client.get(f"/collections/{name}").json["count"] == 1_750


OF_ONE_ID = [_line(2, text="first"), _line(2, text="second"), _line(2), _line(2)]
OF_STORED = [_line(number, text="new") for number in (0, *range(40))]


@pytest.mark.parametrize(
    ("there", "lines", "on_conflict", "text", "counts", "refused", "writes"),
    [
        (0, OF_ONE_ID, "replace", "text 2", (1, 2, 1), [], 1),
        (0, OF_ONE_ID, "skip", "first", (1, 0, 3), [], 1),
        (0, OF_ONE_ID, "error", "first", (1, 0, 0), [2, 3, 4], 1),
        (20, OF_STORED, "replace", "new", (20, 20, 1), [], 1),
        (20, OF_STORED, "skip", "text 2", (20, 0, 21), [], 1),
        (20, OF_STORED, "error", "text 2", (20, 0, 0), [1, *range(2, 41, 2)], 2),
    ],
)
def test_lines_of_one_id_or_of_stored_ones_are_few_writes_and_count_as_if_they_were_several(
    stream, client, filled, parts, there, lines, on_conflict, text, counts, refused, writes
):
    """All conflicts of a block are found at once."""
    name = filled([json.loads(_line(2 * number)) for number in range(there)])
    answer = stream(name, lines, on_conflict=on_conflict).json
    assert (answer["created"], answer["updated"], answer["unchanged"]) == counts
    assert [(each["line"], each["code"]) for each in answer["errors"]] == [(at, "document_exists") for at in refused]
    assert client.get(f"/collections/{name}/documents/doc-2").json["text"] == text
    assert len(parts) == writes


@pytest.mark.slow
def test_gzip_that_breaks_off_says_how_far_it_came(stream, client, filled):
    name = filled()
    body = gzip.compress("\n".join(_line(number) for number in range(5_000)).encode(), compresslevel=0)
    answer = stream(name, body[: len(body) // 2], headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_gzip")
    kept = client.get(f"/collections/{name}").json["count"]
    assert kept == answer.json["details"]["count"] > 0
    assert kept <= answer.json["details"]["line"]


def test_replace_where_is_refused_for_a_stream(stream, filled, unchanged):
    name = filled()
    with unchanged(name):
        answer = stream(name, [_line(0)], replace_where='{"a": 1}')
    assert (answer.status_code, answer.json["details"]["field"]) == (400, "replace_where")


def test_the_first_good_line_sets_the_dimension(stream, client, filled):
    name = filled()
    answer = stream(
        name, ['{"text": "x"}', _line(0, embedding=[1, 2, 3]), _line(1), _line(2, embedding="AAAAAAAAAAAAAIA/")]
    )
    assert [each["line"] for each in answer.json["errors"]] == [1, 3]
    assert client.get(f"/collections/{name}").json["dimension"] == 3


def test_more_bad_lines_than_are_listed_are_counted(stream, filled):
    answer = stream(filled(), [_line(0), *(["{"] * 1_200)]).json
    assert (len(answer["errors"]), answer["errors_total"]) == (1_000, 1_200)


def test_a_stream_of_bad_lines_is_not_read_to_its_end_and_its_good_lines_are_stored(
    stream, client, filled, monkeypatch
):
    monkeypatch.setattr(line_streams, "MAX_BAD_LINES", 10)
    name = filled()
    answer = stream(name, [_line(0), *["{}"] * 10, _line(1), "{}", *[_line(number) for number in range(2, 9)]])
    assert (answer.status_code, answer.json["code"]) == (400, "too_many_bad_lines")
    details = answer.json["details"]
    assert (details["count"], details["line"], details["limit"], details["errors_total"]) == (2, 13, 10, 11)
    assert [each["line"] for each in details["errors"]] == [*range(2, 12), 13]
    assert _ids(client, name) == {"doc-0", "doc-1"}


@pytest.mark.parametrize(
    ("there", "lines", "told"),
    [
        (0, [each for number in range(600) for each in (_line(number), "{}")], (600, 600)),
        (40, [_line(number) for number in range(41)], (1, 40)),
    ],
    ids=["bad lines among as many good ones", "refused lines that hold documents"],
)
def test_a_stream_is_not_ended_by(stream, filled, monkeypatch, there, lines, told):
    monkeypatch.setattr(line_streams, "MAX_BAD_LINES", 10)
    answer = stream(filled([json.loads(line) for line in lines[:there]]), lines, on_conflict="error")
    assert (answer.status_code, (answer.json["count"], answer.json["errors_total"])) == (201, told)


def test_a_stream_is_stored_while_it_arrives(live, collection):
    """The stream comes in chunks without a length, and the first transaction is done before the last line is sent."""
    with live.one_connection() as connection, live.one_connection() as reader:
        assert connection.ask("POST", "/collections", {"name": collection}).status == 201

        def count():
            return reader.ask("GET", f"/collections/{collection}").json["count"]

        def lines():
            for number in range(1_200):
                if number == 1_100:
                    eventually(lambda: count() >= 500)
                yield (_line(number, text="x" * 500) + "\n").encode()

        url = f"/collections/{collection}/documents"
        answer = connection.ask("POST", url, lines(), Content_Type="application/x-ndjson")
        assert (answer.status, answer.json["count"]) == (201, 1_200)
        assert "ids" not in answer.json
        assert count() == 1_200
