"""Secrets that somebody tries to get out of a connection test appear in no report, log or output."""

import pytest

from registry.provider_registry import ProviderRegistry
from tests.registry.hostile import ENVIRON, SECRET, failed_stage, response
from tests.registry.test_connection_trial import Shelf
from tests.support.notations import METADATA
from tests.support.raw_server import raw_server, saying

KEY = "${RAG_PLANTED_API_KEY}"


@pytest.mark.parametrize(
    "key", [f"{SECRET}\r\nX-Injected: yes", f"{SECRET}\nHost: evil", f"{SECRET}\x00", f"{SECRET} x", f"{SECRET}ü"]
)
def test_a_key_that_would_be_another_header_is_refused(try_out, key):
    with raw_server(saying(response())) as server:
        for config in ({"api_key": key}, {"api_key": "${RAG_BAD_API_KEY}"}):
            report = try_out({"url": server.url, **config}, environ={"RAG_BAD_API_KEY": key})
            assert report.error_type == "invalid_config"
        assert not any(server.requests)


@pytest.mark.parametrize("status", ["400 Bad", "401 No", "403 No", "404 No", "422 No", "429 No", "500 No", "302 Found"])
def test_a_key_quoted_in_an_answer_stays_hidden(try_out, status):
    said = f'{{"error": {{"message": "you sent Bearer {SECRET} to {METADATA}"}}, "detail": "{SECRET}"}}'
    answer = response(said.encode(), status, X_Echo=SECRET, Location=f"/{SECRET}", Retry_After="99")
    with raw_server(saying(answer)) as server:
        assert not try_out({"url": server.url, "api_key": KEY}).success


def test_a_key_in_what_a_service_says_of_itself_stays_hidden(try_out):
    hidden = "\u200b".join(SECRET)

    class Echo(Shelf):
        def check(self):
            return {"version": f"v{self.config['token']}", "name": hidden, "long": "x" * 508 + SECRET, "list": [SECRET]}

        def try_out(self):
            return {"collections": [SECRET, hidden, "fine"], SECRET[:3]: 1}

    registry = ProviderRegistry()
    registry.register(Echo)
    report = try_out({"token": KEY}, kind="rag", provider="shelf", registry=registry)
    assert [each["name"] for each in report.collections] == ["***", "***", "fine"]
    assert report.details == {"version": "v***", "name": "***", "long": "x" * 508 + "***", SECRET[:3]: 1}


def test_a_secret_in_the_host_name_stays_hidden(try_out):
    report = try_out({"url": "${RAG_PLANTED_URL}"})
    assert (failed_stage(report).name, report.error_type) == ("address", "network")
    assert SECRET in ENVIRON["RAG_PLANTED_URL"]
