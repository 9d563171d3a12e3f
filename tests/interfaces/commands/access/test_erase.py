"""The command waits for an erasure as long as a service works at one."""

import json

import pytest
from click.testing import CliRunner

from interfaces.cli import main
from interfaces.terminal import services
from providers.contract_tests.stub_server import serving
from providers.outbound.json_client import JsonClient
from schemas.storage.erasure import LIMIT_SECONDS

RECEIPT = {"collection": "docs", "user": None, "documents": 1, "chunks": 2, "files": [], "also_in": []}


@pytest.mark.parametrize("by", ["url", "data_dir", "settings"])
def test_the_command_waits_longer_than_a_service_works_at_an_erasure(tmp_path, monkeypatch, by):
    made, patience = JsonClient.__init__, []

    def make(client, url, dialect, **given):
        patience.append(given["timeout_seconds"])
        made(client, url, dialect, **given)

    with serving() as stub:
        stub.answer = (200, {}, json.dumps({"receipt": RECEIPT}).encode())
        asked = {"url": ("--url", stub.url), "data_dir": ("--data-dir", tmp_path), "settings": ()}[by]
        monkeypatch.setattr(services, "running_service", lambda _: stub.url if by == "data_dir" else None)
        monkeypatch.setattr(services, "configured_url", lambda: stub.url)
        monkeypatch.setattr(JsonClient, "__init__", make)
        done = CliRunner().invoke(
            main, ["erase", "--collection", "docs", "--document", "a", *map(str, asked)], env={"RAG_DATA_DIR": "none"}
        )
    assert done.exit_code == 0, done.output
    assert "1 documents (2 stored pieces)" in done.output
    assert patience[-1] > LIMIT_SECONDS
