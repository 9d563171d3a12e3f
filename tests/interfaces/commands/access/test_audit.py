"""`rag-wrapper audit` on the files of a data directory, and on a service; `erase` waits as long as a service works at
an erasure."""

import json

import pytest
from click.testing import CliRunner

from interfaces.cli import main
from providers.contract_tests.stub_server import serving
from providers.outbound.json_client import JsonClient
from schemas.storage.audit import AuditEvent
from schemas.storage.erasure import LIMIT_SECONDS
from wrapper.audit.audit_log import AuditLog
from wrapper.audit.file_names import files_in


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(main, ["audit", *map(str, arguments)])


@pytest.fixture
def data_dir(tmp_path):
    """A data directory with the log of a service, and nothing else in it."""
    log = AuditLog(tmp_path / "audit", max_bytes=1_000, requests_at_once=1)
    for number in range(12):
        log.append(
            AuditEvent(
                "POST",
                "/mcp" if number == 11 else "/collections",
                201,
                key_id=f"key{number % 2}",
                collection=f"c{number % 3}",
                count=number,
                address="192.0.2.7",
                tool="session_note\x1b[2J" if number == 11 else None,
                cut=number == 10,
                repeated=340 if number == 9 else None,
            ),
            checked=False,
        )
    log.close()
    return tmp_path


def test_the_newest_come_first_in_columns_and_are_chosen_by_key_collection_and_time(run, data_dir):
    done = run("--data-dir", data_dir, "--limit", 3)
    assert done.exit_code == 0, done.output
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[1:] for row in rows] == [
        ["key1", "201", "POST", "/mcp session_note[2J", "c2", "11", "192.0.2.7"],
        ["key0", "201", "POST", "/collections", "c1", "10 (cut)", "192.0.2.7"],
        ["key1", "201 (x340)", "POST", "/collections", "c0", "9", "192.0.2.7"],
    ]
    assert all(row[0].startswith("20") for row in rows)

    def counts(*arguments):
        return [
            each["count"] for each in json.loads(run("--data-dir", data_dir, "--json", *arguments).stdout)["entries"]
        ]

    assert counts() == list(range(11, -1, -1))
    assert counts("--key", "key1", "--collection", "c0") == [9, 3]
    assert counts("--since", "1h") == list(range(11, -1, -1))
    assert counts("--since", "2999-01-01") == []


def test_torn_lines_are_counted(run, data_dir):
    with (data_dir / "audit" / str(files_in(data_dir / "audit")[-1])).open("ab") as file:
        file.write(b'{"time')
    done = run("--data-dir", data_dir, "--limit", 50)
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 12)
    assert "1 lines of the audit log cannot be read" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--data-dir", "{empty}"), "No audit log is in"),
        (("--data-dir", "{data}", "--since", "soon"), "since must be a time"),
        (("--data-dir", "{data}", "--url", "http://127.0.0.1:9"), "not both"),
        (("--url", "http://127.0.0.1:9"), "127.0.0.1:9"),
    ],
)
def test_what_cannot_be_read_is_told_in_a_sentence(run, data_dir, tmp_path_factory, arguments, said):
    places = {"empty": tmp_path_factory.mktemp("empty"), "data": data_dir}
    done = run(*(each.format(**places) for each in arguments))
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_service_is_asked_by_its_url(run, live, session, collection):
    session.post(f"{live.url}/collections", json={"name": collection})
    done = run("--url", live.url, "--collection", collection, "--since", "1h", "--json")
    assert [each["route"] for each in json.loads(done.stdout)["entries"]] == ["/collections"]
    done = run("--data-dir", live.data_dir, "--collection", collection)
    assert len(done.stdout.splitlines()) == 1


RECEIPT = {"collection": "docs", "user": None, "documents": 1, "chunks": 2, "files": [], "also_in": []}


def test_the_command_waits_longer_than_a_service_works_at_an_erasure(monkeypatch):
    made, patience = JsonClient.__init__, []

    def make(client, url, dialect, **given):
        patience.append(given["timeout_seconds"])
        made(client, url, dialect, **given)

    with serving() as stub:
        stub.answer = (200, {}, json.dumps({"receipt": RECEIPT}).encode())
        monkeypatch.setattr(JsonClient, "__init__", make)
        done = CliRunner().invoke(main, ["erase", "--collection", "docs", "--document", "a", "--url", stub.url])
    assert done.exit_code == 0, done.output
    assert "1 documents (2 stored pieces)" in done.output
    assert patience[-1] > LIMIT_SECONDS
