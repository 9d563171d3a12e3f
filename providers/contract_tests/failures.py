"""Failures between a provider and an HTTP server: errors tell their coarse type and no secret."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from providers.base import Provider, ProviderContext, SupportsMetadataFiltering, SupportsSearch
from providers.contract_tests.abilities import can
from providers.contract_tests.samples import errors_of
from providers.contract_tests.stub_server import Answer, StubServer, serving
from providers.outbound.addresses import ConnectPolicy
from providers.outbound.network import Network
from schemas.errors import ConfigurationError, InvalidInputError, RagError, UnavailableError

SECRET = "planted-secret-key"
PATIENCE_SECONDS = 30.0
"""The timeout where none is expected: a busy machine may stand still for seconds."""
METADATA_SERVICE = "http://169.254.169.254/latest"
REFUSAL = json.dumps({"error": f"no {SECRET}", "message": "a reason"}).encode()
STRANGE_BODIES = (
    *(b"", b"<html>", b"[]", b"{}", b'"text"', b"null", b'{"result": 5}', b"[[[1"),
    b'{"id": 7, "name": [], "collections": [1]}',
)
"""Answers of a server that is not the one expected."""


class FailureTests:
    """The tests of failures, for providers of documents behind HTTP. Subclasses override `connect`."""

    def connect(self, url: str, api_key: str, context: ProviderContext, *, timeout_seconds: float) -> Provider:
        """Return a provider of the server at `url`, with that timeout and, where it can, no pauses between attempts."""
        pytest.fail("override `connect`: it returns a provider of the server at that URL")

    @pytest.fixture
    def stub(self) -> Iterator[StubServer]:
        with serving() as stub:
            yield stub

    @pytest.fixture
    def remote(self, stub: StubServer) -> Iterator[Provider]:
        with self.connect(stub.url, SECRET, ProviderContext(), timeout_seconds=PATIENCE_SECONDS) as provider:
            yield provider

    @pytest.mark.parametrize(
        ("answer", "kind", "error_type", "timeout_seconds"),
        [
            ((401, {}, REFUSAL), ConfigurationError, "authentication", PATIENCE_SECONDS),
            ((403, {}, b"<html>forbidden"), ConfigurationError, "authorization", PATIENCE_SECONDS),
            ((302, {"Location": METADATA_SERVICE}, b""), ConfigurationError, "invalid_config", PATIENCE_SECONDS),
            ((429, {}, REFUSAL), UnavailableError, "rate_limit", PATIENCE_SECONDS),
            (None, UnavailableError, "timeout", 0.1),
        ],
        ids=["401", "403", "302", "429", "silence"],
    )
    def test_a_failure_has_its_type_and_tells_no_secret(
        self, stub: StubServer, answer: Answer | None, kind: type[RagError], error_type: str, timeout_seconds: float
    ) -> None:
        stub.answer = answer
        with self.connect(stub.url, SECRET, ProviderContext(), timeout_seconds=timeout_seconds) as remote:
            for error in errors_of(_questions(remote)):
                assert isinstance(error, kind), error
                assert error.details["error_type"] == error_type
                assert SECRET not in str([error.message, error.details])
            report = remote.health()
        assert (report.status, report.details["error_type"]) == ("unhealthy", error_type)
        assert SECRET not in str(report)
        assert all("latest" not in path for path, _ in stub.requests)

    @pytest.mark.parametrize("content", STRANGE_BODIES)
    def test_an_answer_of_something_else_is_no_crash(self, remote: Any, stub: StubServer, content: bytes) -> None:
        stub.answer = (200, {}, content)
        told = []
        for ask in _questions(remote):
            try:
                ask()
            except RagError as error:
                told.append(error)
        assert RagError not in map(type, told), "the root of the family stands for a defect of this service"
        assert remote.health().status in ("healthy", "unhealthy")
        if can(remote, SupportsMetadataFiltering):
            with pytest.raises(RagError):
                remote.documents("docs")

    def test_the_key_goes_in_its_own_header_and_nowhere_else(self, remote: Any, stub: StubServer) -> None:
        remote.health()
        assert stub.requests
        for path, headers in stub.requests:
            assert [value for value in headers.values() if SECRET in value] in ([SECRET], [f"Bearer {SECRET}"])
            assert SECRET not in path

    @pytest.mark.parametrize(
        "target", ["http://169.254.169.254", "http://[::ffff:169.254.169.254]", "http://2852039166"]
    )
    def test_the_policy_is_asked_before_any_socket_is_opened(self, target: str) -> None:
        with self.connect(target, SECRET, ProviderContext(), timeout_seconds=PATIENCE_SECONDS) as provider:
            assert provider.health().details["error_type"] == "blocked"
            for error in errors_of(_questions(provider)):
                assert isinstance(error, InvalidInputError)
                assert error.details["error_type"] == "blocked"

    def test_the_policy_of_the_context_is_the_one_asked(self, stub: StubServer) -> None:
        context = ProviderContext(network=Network(ConnectPolicy.parse("public")))
        with self.connect(stub.url, SECRET, context, timeout_seconds=PATIENCE_SECONDS) as provider:
            assert provider.health().details["error_type"] == "blocked"
        assert stub.requests == []


def _questions(provider: Any) -> list[Callable[[], Any]]:
    questions = [provider.check, provider.collections, lambda: provider.collection("docs")]
    if can(provider, SupportsSearch):
        questions.append(lambda: provider.search("docs", np.ones(4, "f4")))
    if can(provider, SupportsMetadataFiltering):
        questions.append(lambda: provider.documents("docs"))
    return questions
