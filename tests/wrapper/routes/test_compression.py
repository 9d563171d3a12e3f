import gzip

import orjson
import pytest

FAR = {"REMOTE_ADDR": "192.0.2.7"}


@pytest.fixture
def large(filled):
    return filled([{"id": f"{n}", "text": "word " * 100, "metadata": {}, "embedding": [1.0, 0.0]} for n in range(20)])


def test_a_large_answer_is_compressed_for_a_client_elsewhere_that_takes_it(client, large):
    path = f"/collections/{large}/documents"
    plain = client.get(path)
    answer = client.get(path, headers={"Accept-Encoding": "gzip, br"}, environ_overrides=FAR)
    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(answer.get_data()) < len(plain.get_data()) / 5
    assert orjson.loads(gzip.decompress(answer.get_data())) == plain.json
    assert answer.headers["ETag"] == plain.headers["ETag"]
    assert "Accept-Encoding" in answer.headers["Vary"]


@pytest.mark.parametrize("accepted", ["", "br", "gzip;q=0", "identity"])
def test_it_is_not_for_a_client_that_does_not_take_it(client, large, accepted):
    answer = client.get(f"/collections/{large}/documents", headers={"Accept-Encoding": accepted}, environ_overrides=FAR)
    assert "Content-Encoding" not in answer.headers
    assert "Accept-Encoding" in answer.headers["Vary"]


def test_neither_small_answers_nor_streams_nor_those_to_this_machine_are_compressed(client, large):
    takes = {"Accept-Encoding": "gzip"}
    assert "Content-Encoding" not in client.get(f"/collections/{large}", headers=takes, environ_overrides=FAR).headers
    export = client.get(f"/collections/{large}/export", headers=takes, environ_overrides=FAR)
    assert "Content-Encoding" not in export.headers
    assert "Content-Encoding" not in client.get(f"/collections/{large}/documents", headers=takes).headers


def test_a_slash_at_the_end_changes_nothing(client, large):
    for path in ("/collections", f"/collections/{large}", f"/collections/{large}/documents", "/docs"):
        assert client.get(f"{path}/").get_data() == client.get(path).get_data()
    document = {"id": "a/", "text": "ends with one", "metadata": {}, "embedding": [1.0, 0.0]}
    client.post(f"/collections/{large}/documents/", json={"documents": [document]})
    assert client.get(f"/collections/{large}/documents/a/").json["text"] == "ends with one"
