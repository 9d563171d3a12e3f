"""A body whose chunks are none changes no answer, no status in the audit log, and puts nothing into the log."""

import json
import socket

from tests.access.faults import all_faults
from tests.access.keyed import MINE, THEIRS
from tests.support.live import PATIENCE_SECONDS, eventually

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


def answered(keyed, line, key, body):
    """Return (the status of the answer, its body) to a request with this body; fail if the connection goes on."""
    headers = "Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    credentials = f"Authorization: Bearer {key}\r\n" if key else ""
    with socket.create_connection(("127.0.0.1", keyed.service.port), timeout=PATIENCE_SECONDS) as client:
        client.sendall(f"{line} HTTP/1.1\r\n{headers}{credentials}\r\n{body}".encode())
        received = b""
        while part := client.recv(1 << 16):
            received += part
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
            (404, f"DELETE /collections/{THEIRS}", "mine"),
            (400, "POST /api/search", "read"),
            (400, "POST /mcp", "read"),
            (400, f"POST /collections/{MINE}/documents", "write"),
        ):
            for body in MALFORMED:
                with case(line, kind, body[:40]):
                    found, content = answered(keyed, line, keyed.keys.get(kind), body.format(key=keyed.keys["manage"]))
                    assert found == status, content
                    assert status != 400 or json.loads(content)["code"] == "malformed_request"


def test_what_was_carried_out_is_recorded_as_such(keyed):
    for number, body in enumerate(MALFORMED):
        name = f"doomed-{number}"
        assert keyed.ask("POST", "/collections", keyed.admin_key, {"name": name}).status_code == 201
        done, _ = answered(keyed, f"DELETE /collections/{name}", keyed.admin_key, body.format(key="x"))
        assert done == 200
        assert keyed.ask("GET", f"/collections/{name}", keyed.admin_key).status_code == 404
    lines = [
        json.loads(line)
        for file in sorted((keyed.service.data_dir / "audit").glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    doomed = [
        each["status"] for each in lines if str(each["collection"]).startswith("doomed-") and each["method"] == "DELETE"
    ]
    assert doomed == [200] * len(MALFORMED)


def test_nothing_of_it_is_in_the_log(keyed):
    before = keyed.service.log.stat().st_size
    for body in MALFORMED:
        answered(keyed, "POST /api/search", keyed.keys["read"], body.format(key=keyed.admin_key))
        answered(keyed, "GET /live", None, body.format(key=keyed.keys["manage"]))
    last = keyed.ask("GET", "/api/me", keyed.admin_key).headers["X-Request-ID"]
    written = eventually(lambda: last in (log := keyed.service.log.read_bytes()[before:].decode()) and log)
    assert "Traceback" not in written
    assert keyed.admin_key not in written
    assert keyed.keys["manage"][12:] not in written
