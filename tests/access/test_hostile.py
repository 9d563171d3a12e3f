"""What somebody may try who has no key, a key for little, or one that has ended. A body whose chunks are none changes
no answer, no status in the audit log, and puts nothing into the log."""

import base64
import json
import os
import signal
import socket
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import requests

from schemas.access.narrowing import HEADER
from tests.access.asking import BODIES, RULE
from tests.access.faults import all_faults
from tests.access.keyed import CANARY, MINE, THEIRS
from tests.support.live import PATIENCE_SECONDS, eventually
from wrapper.catalog.postgres.database import PostgresDatabase
from wrapper.engine.keeper.state import read_state

OTHER = "rw_abcdefgh_" + "x" * 43


def _basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _me(keyed, **headers):
    """Return the answer of `/api/me` to these headers, whose names are written with underscores."""
    return keyed.ask("GET", "/api/me", **headers)


CARRIED = [
    lambda key: {"Authorization": f"Bearer {key}"},
    lambda key: {"Authorization": f"bearer   {key}"},
    lambda key: {"Authorization": _basic("anybody", key)},
    lambda key: {"Authorization": _basic("", key).replace("Basic", "basic")},
    lambda key: {"X_API_Key": key},
    lambda key: {"x_api_key": f"{key} , {key}"},
    lambda key: {"api_key": key},
    lambda key: {"X_Chroma_Token": key},
    lambda key: {"X_API_Key": key, "Authorization": f"Bearer {key}", "X_Chroma_Token": key},
]
NOT_CARRIED = [
    (lambda key: {"Authorization": f"Bearer {key}", "X_API_Key": OTHER}, "key_ambiguous"),
    (lambda key: {"api_key": f"{key},{OTHER}"}, "key_ambiguous"),
    (lambda key: {"Authorization": f"Bearer {key}, Bearer {OTHER}"}, "key_ambiguous"),
    (lambda key: {"Authorization": _basic("x", key), "X_Chroma_Token": key.upper()}, "key_ambiguous"),
    (lambda key: {"Authorization": key}, "key_unknown"),
    (lambda key: {"Authorization": f"Digest {key}"}, "key_unknown"),
    (lambda key: {"Authorization": "Bearer"}, "key_unknown"),
    (lambda key: {"Authorization": _basic(key, "")}, "key_unknown"),
    (lambda key: {"Authorization": f"Bearer {key.upper()}"}, "key_unknown"),
    (lambda key: {"Authorization": f"Bearer {key}="}, "key_unknown"),
    (lambda key: {"Authorization": f"Bearer {key[:-1]}"}, "key_unknown"),
    (lambda key: {"Authorization": f"Bearer {key}\xe9"}, "key_unknown"),
    (lambda key: {"X_API_Key": "x" * 8_000}, "key_unknown"),
    (lambda key: {"X_API_Key": "a.b.c"}, "key_unknown"),
    (lambda key: {"X_API_Key": ","}, "key_missing"),
]


def test_a_key_is_taken_from_any_header_that_clients_know_and_what_is_not_exactly_one_is_none(keyed):
    with all_faults() as case:
        for number, (headers, code) in enumerate([*((each, None) for each in CARRIED), *NOT_CARRIED]):
            with case(number, code):
                answer = _me(keyed, **headers(keyed.keys["mine"]))
                assert (answer.status_code, answer.json().get("code")) == (401 if code else 200, code)
                assert (keyed.keys["mine"] in answer.text, answer.json().get("name") == "mine") == (False, not code)


def test_a_key_in_the_query_string_or_the_body_is_no_key_and_a_view_that_is_sent_along_only_narrows(keyed):
    key = keyed.admin_key
    for parameter in ("api_key", "key", "token", "access_token"):
        assert keyed.ask("GET", f"/collections?{parameter}={key}").status_code == 401
    body = {"query_embedding": [1, 0], "collection": MINE, "api_key": key, "key": key}
    assert keyed.ask("POST", "/query", None, body).status_code == 401
    told = base64.urlsafe_b64encode(b'{"scopes": ["admin"], "collections": null, "where": null}').decode()
    answer = keyed.ask("GET", f"/collections/{THEIRS}", keyed.keys["mine"], **{HEADER.replace("-", "_"): f"x {told}"})
    assert answer.status_code == 404


def test_smuggled_headers_carry_no_key_and_two_of_one_name_are_ambiguous(keyed):
    """Names with underscores and blanks, folded lines and the headers of others are dropped or refused."""
    for lines in (
        "X_API_Key: {key}",
        "X-API-Key : {key}",
        "X-API-Key:\r\n {key}",
        "Authorization : Bearer {key}",
        "X-Forwarded-Authorization: Bearer {key}",
        "Proxy-Authorization: Bearer {key}",
        "Cookie: api_key={key}",
    ):
        answered = _raw(keyed, "GET /collections HTTP/1.1\r\n" + lines.format(key=keyed.admin_key))
        assert answered.split(b" ")[1] in (b"400", b"401"), lines
        assert CANARY.encode() not in answered, lines
    lines = f"X-API-Key: {keyed.keys['mine']}\r\nX-API-Key: {keyed.admin_key}"
    answered = _raw(keyed, "GET /collections HTTP/1.1\r\n" + lines)
    assert answered.split(b" ")[1] == b"401"
    assert b"key_ambiguous" in answered


def test_an_idempotent_answer_is_for_the_caller_who_got_it(keyed):
    """Another caller with the same key of repetition does a write of its own, and is told nothing of the first."""
    again = str(uuid.uuid4())
    other = keyed.new_key(name="other", scopes=["manage"], collections=["mine*"])["key"]
    document = {"documents": [{"id": f"once-{again}", "text": "once", "embedding": [1.0, 0.0]}]}
    answers = [
        keyed.ask("POST", f"/collections/{MINE}/documents", key, document, Idempotency_Key=again)
        for key in (keyed.keys["mine"], keyed.keys["mine"], other)
    ]
    replayed = [each.headers.get("Idempotent-Replayed") for each in answers]
    assert replayed == [None, "true", None]
    different = {"documents": [{"id": f"other-{again}", "text": "other", "embedding": [0.0, 1.0]}]}
    third = keyed.new_key(name="third", scopes=["manage"], collections=["mine*"])["key"]
    for key, is_conflict in ((other, True), (third, False)):
        answer = keyed.ask("POST", f"/collections/{MINE}/documents", key, different, Idempotency_Key=again)
        assert (answer.status_code == 409, answer.status_code < 300) == (is_conflict, not is_conflict)


def test_a_kept_answer_is_for_callers_who_see_the_same(keyed):
    hidden = f"hidden-{uuid.uuid4().hex}"
    stored = [{**RULE, "filename": "open.md", "content": "The door opens at nine."}]
    stored += [{**RULE, "filename": "shut.md", "content": f"The door of {hidden} opens at night."}]
    for document, is_public in zip(stored, (True, False), strict=True):
        document["metadata"] = {**RULE["metadata"], "public": is_public}
    batch = {"documents": stored, "collection": "mine-texts"}
    assert keyed.ask("POST", "/api/rag/documents:batch", keyed.admin_key, batch).json()["documents_processed"] == 2
    elsewhere = keyed.new_key(name="elsewhere", scopes=["read"], collections=["other*"])["key"]
    named = {"context_key": "kept", "collection": "mine-texts", "min_relevance": 0}

    def told(key, asked, more=named):
        answer = keyed.ask("POST", "/api/rag/retrieve", key, {"query": asked, **more})
        return answer.status_code, answer.json().get("context_id"), hidden in answer.text

    for asked, is_hidden in (("When does the door open?", True), ("The door opens at nine.", False)):
        named["max_chunks"] = 2 if is_hidden else 1
        status, kept, shown = told(keyed.keys["mine"], asked)
        assert (status, shown) == (200, is_hidden)
        assert [told(keyed.keys["mine"], asked) for _ in range(4)] == [(200, kept, shown)] * 4, "nothing was kept"
        status, own, shown = told(keyed.keys["filtered"], asked)
        assert (status, own != kept, shown) == (200, True, False)
        assert told(keyed.keys["filtered"], asked) == (200, own, False)
        assert told(elsewhere, asked) == (404, None, False)
        status, others, shown = told(elsewhere, asked, {"context_key": "kept", "min_relevance": 0})
        assert (status, others in (kept, own), shown) == (200, False, False)
    assert keyed.ask("DELETE", "/collections/mine-texts", keyed.admin_key).status_code == 200


def test_a_connection_to_the_service_itself_gives_no_more_than_the_caller_has(keyed):
    """The connection's own key may do everything; the caller's view goes along."""
    everything = {"url": keyed.url, "api_key": keyed.admin_key}
    wanted = {"id": "itself", "type": "rag", "provider": "chromadb-wrapper", "config": everything, "shared": True}
    made = keyed.ask("POST", "/api/connections", keyed.admin_key, wanted)
    assert made.status_code == 201, made.text
    assert keyed.admin_key not in made.text
    try:
        listed = keyed.ask("GET", "/api/connections/itself/collections", keyed.keys["mine"])
        assert listed.status_code == 200, listed.text
        assert {each["name"][:4] for each in listed.json()["collections"]} == {"mine"}
        asked = dict(BODIES["POST /api/collect"])
        [entry] = asked["selectedCollections"]
        asked["selectedCollections"] = [{**entry, "service": "itself", "name": name} for name in (THEIRS, MINE)]
        answer = keyed.ask("POST", "/api/collect", keyed.keys["mine"], asked)
        theirs, _ = answer.json()["receipt"]["collections"]
        assert theirs["status"] == "failed"
        assert CANARY not in answer.text.replace(THEIRS, "")
    finally:
        assert keyed.ask("DELETE", "/api/connections/itself", keyed.admin_key).status_code == 200


def test_a_key_for_connections_reaches_no_server_that_holds_the_documents(on_either):
    keyed = on_either

    def refused(host, port):
        body = {"type": "rag", "provider": "chromadb", "config": {"url": f"http://{host}:{port}"}}
        answers = [keyed.ask("POST", "/api/connections/test", keyed.keys["connect"], body) for _ in range(6)]
        return {(each.status_code, each.json().get("errorType")) for each in answers} == {(200, "blocked")}

    def engine():
        return urlsplit(read_state(keyed.service.data_dir).url)

    assert all(refused(host, engine().port) for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"))
    if keyed.catalog_url:
        assert all(refused(*server) for server in PostgresDatabase(keyed.catalog_url).servers)
    before = engine().port
    os.kill(keyed.service.engine_pid, signal.SIGKILL)
    eventually(lambda: engine().port not in (None, before))
    assert refused("127.0.0.1", engine().port)
    eventually(lambda: read_state(keyed.service.data_dir).ready)


def _raw(keyed, head):
    return _received(keyed, f"{head}\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")


def _received(keyed, sent):
    """Return all that is answered to what is sent, until the service hangs up."""
    with socket.create_connection(("127.0.0.1", keyed.service.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(sent.encode())
        received = b""
        while piece := connection.recv(65_536):
            received += piece
    return received


def test_what_is_no_http_is_refused_in_the_services_words_without_its_keys(keyed):
    key = keyed.keys["mine"]
    for head, status, code in (
        ("{key} /live HTTP/1.1", 400, "malformed_request"),
        ("GET{key} /live", 400, "malformed_request"),
        ("GET /live HTTP/1.1\r\n{key}", 400, "malformed_request"),
        ("GET /live HTTP/1.1\r\nX-Key {key}: yes", 400, "malformed_request"),
        ("GET /live HTTP/1.1\r\nTransfer-Encoding: {key}", 400, "malformed_request"),
        ("GET /live HTTP/1.1\r\nX-Much: " + "{key}" * 500, 431, "headers_too_large"),
        ("GET /v1/models HTTP/1.1\r\nX-Much: " + "{key}" * 500, 431, "headers_too_large"),
        ("GET http://any//v1/models?x HTTP/1.1\r\nX-Key {key}: yes", 400, "malformed_request"),
    ):
        answer = _raw(keyed, head.format(key=key)).decode()
        assert answer.startswith(f"HTTP/1.1 {status} "), head
        assert orjson.loads(answer.partition("\r\n\r\n")[2])["code"] == code, head
        assert key not in answer, head
        assert ("x-should-retry: false\r\n" in answer) == ("/v1/" in head) == ('"param":' in answer), head


def test_no_answer_repeats_a_key_that_stands_in_the_wrong_place(keyed):
    for key in (keyed.keys["mine"], keyed.admin_key):
        for method, path, body in (
            ("GET", f"/{key}", None),
            ("GET", f"/api/keys/{key}", None),
            ("GET", f"/collections/{key}", None),
            ("POST", "/query", {"collection": key, "query_embedding": [1, 0], "top_k": 1}),
            ("POST", f"/collections/{MINE}/query", {"query_embedding": [1, 0], "where": {key: {f"${key}": 1}}}),
        ):
            answer = keyed.ask(method, path, keyed.admin_key, body)
            assert 400 <= answer.status_code < 500
            assert key not in answer.text
    key = keyed.keys["mine"]
    warned = keyed.ask("GET", f"/collections?{key}=1", key)
    assert warned.json()["warnings"]
    assert key not in warned.text
    assert key not in requests.get(f"{keyed.url}/live", headers={"Host": key}, timeout=PATIENCE_SECONDS).text


def test_neither_log_has_a_key_that_stood_in_the_wrong_place(keyed):
    for key in (keyed.keys["mine"], keyed.admin_key):
        _raw(keyed, f"{key} /live HTTP/1.1")
        _raw(keyed, f"GET /live HTTP/1.1\r\nX-Key {key.replace('_', '%255F')}: yes")
        keyed.ask("GET", f"/collections/marked-{key}", keyed.admin_key)
        keyed.ask("DELETE", f"/collections/marked-{key}", keyed.admin_key, X_Request_ID=key)
    key = keyed.keys["mine"]
    _raw(keyed, f"{key[:-5]} /live HTTP/1.1")
    _raw(keyed, f"GET /live HTTP/1.1\r\n{key}: in capitals\x01")
    log = keyed.service.log.read_text()
    assert "/collections/marked-" in log
    assert "Invalid request from ip=" in log
    audited = "".join(file.read_text() for file in sorted((keyed.service.data_dir / "audit").glob("*.jsonl")))
    assert '"collection":"marked-' in audited
    for written in (log, audited):
        assert not [name for name, key in keyed.keys.items() if key in written]
        assert keyed.admin_key not in written
        assert key[12:32].lower() not in written.lower()


def test_the_engine_does_not_get_the_services_settings(keyed):
    state = read_state(keyed.service.data_dir)
    for pid in (state.pid, state.keeper_pid):
        environ = (Path("/proc") / str(pid) / "environ").read_bytes().split(b"\0")
        assert not [each for each in environ if each.startswith(b"RAG_") or keyed.admin_key.encode() in each]


MALFORMED = (
    "ZZ\r\n\r\n",
    "-5\r\nab\r\n0\r\n\r\n",
    "0x5\r\nabcde\r\n0\r\n\r\n",
    "\r\n0\r\n\r\n",
    "2\r\nabc\r\n0\r\n\r\n",
    "2\r\n{{}}\r\n0\r\n{key}\r\n\r\n",
    "{key}\r\n\r\n",
    "2;" + "x" * 200_000 + "\r\n{{}}\r\n0\r\n\r\n",
)


def _answered(keyed, line, key, body):
    """Return (the status of the answer, its body) to a request with this body; fail if the connection goes on."""
    headers = "Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    credentials = f"Authorization: Bearer {key}\r\n" if key else ""
    received = _received(keyed, f"{line} HTTP/1.1\r\n{headers}{credentials}\r\n{body}")
    head, _, content = received.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), content


def test_the_answer_is_the_one_of_the_request(keyed):
    with all_faults() as case:
        for status, line, kind in (
            (200, "GET /live", None),
            (404, "GET /nope", None),
            (401, "POST /api/search", None),
            (401, "POST /api/search", "revoked"),
            (403, f"DELETE /collections/{MINE}", "read"),
            (404, f"GET /collections/{THEIRS}", "mine"),
            (400, "POST /api/search", "read"),
            (400, "POST /mcp", "read"),
            (400, f"POST /collections/{MINE}/documents", "write"),
        ):
            for body in MALFORMED:
                with case(line, kind, body[:40]):
                    found, content = _answered(keyed, line, keyed.keys.get(kind), body.format(key=keyed.keys["manage"]))
                    assert found == status, content
                    assert status != 400 or json.loads(content)["code"] == "malformed_request"


def test_a_deletion_whose_body_cannot_be_read_is_refused_and_recorded_as_such(keyed):
    for number, body in enumerate(MALFORMED):
        name = f"doomed-{number}"
        assert keyed.ask("POST", "/collections", keyed.admin_key, {"name": name}).status_code == 201
        done, _ = _answered(keyed, f"DELETE /collections/{name}", keyed.admin_key, body.format(key="x"))
        assert done == 400
        assert keyed.ask("GET", f"/collections/{name}", keyed.admin_key).status_code == 200
    lines = [
        json.loads(line)
        for file in sorted((keyed.service.data_dir / "audit").glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    doomed = [
        each["status"] for each in lines if str(each["collection"]).startswith("doomed-") and each["method"] == "DELETE"
    ]
    assert doomed == [400] * len(MALFORMED)


def test_nothing_of_it_is_in_the_log(keyed):
    before = keyed.service.log.stat().st_size
    for body in MALFORMED:
        _answered(keyed, "POST /api/search", keyed.keys["read"], body.format(key=keyed.admin_key))
        _answered(keyed, "GET /live", None, body.format(key=keyed.keys["manage"]))
    last = keyed.ask("GET", "/api/me", keyed.admin_key).headers["X-Request-ID"]
    written = eventually(lambda: last in (log := keyed.service.log.read_bytes()[before:].decode()) and log)
    assert "Traceback" not in written
    assert keyed.admin_key not in written
    assert keyed.keys["manage"][12:] not in written
