"""A connection test as a user with honest configurations sees it."""

import threading
from itertools import count

import pytest
import structlog

from providers.base import RagProvider
from registry.provider_registry import ProviderNotFoundError, ProviderRegistry
from registry.trial_diagnosis import USUAL
from schemas.connections import ERROR_TYPES, CollectionInfo, Fault
from schemas.errors import NoThreadError, UnavailableError
from tests.registry.hostile import ENVIRON, SECRET, cut_in, failed_stage, response, try_out, wait_for_ends_of_tests
from tests.support.live import PATIENCE_SECONDS, no_thread_begins
from tests.support.model_server import Answer, model_server, openai_answer
from tests.support.raw_server import raw_server, saying

A_AND_B = tuple({"name": name, "count": 1, "metadata": {}} for name in "ab")


@pytest.fixture
def models():
    with model_server() as server:
        yield server


def verdicts(report):
    return {stage.name: stage.verdict for stage in report.stages}


def test_a_service_that_works_passes_every_stage():
    with raw_server(saying(response())) as server:
        config = {"url": f"{server.url}/v1", "model": "m", "api_key": "${RAG_PLANTED_API_KEY}", "batch_size": 1}
        report = try_out(config, clock=count().__next__)
        assert set(verdicts(report).values()) == {"passed"}
        assert (report.success, report.provider) == (True, "openai")
        assert (report.kind, report.method) == ("embedding", "embed_text")
        assert report.details == {"model": "m", "dimension": 2}
        assert (report.collections, report.collections_count) == (None, None)
        assert all(stage.message for stage in report.stages)
        assert [stage.latency_ms for stage in report.stages] == [1_000.0] * 6
        posts = [request for request in server.requests if request]
        assert posts
        assert all(f"Authorization: Bearer {SECRET}".encode() in request for request in posts)


def test_a_provider_that_is_unknown_or_cannot_be_used_here_says_so_and_one_without_an_address_skips_stages():
    report = try_out({}, provider="minilm")
    passed = dict.fromkeys(("config", "placeholders", "authenticate", "capability"), "passed")
    assert verdicts(report) == {**passed, "address": "skipped", "connect": "skipped"}
    assert report.details["dimension"] == 384
    registry = ProviderRegistry()
    registry.register_missing("rag", "absent", "absent is not installed: pip install absent")
    stage = failed_stage(try_out({}, kind="rag", provider="absent", registry=registry))
    assert stage.name == "config"
    assert "pip install absent" in stage.next_step
    with pytest.raises(ProviderNotFoundError):
        try_out({}, provider="nosuch")
    with no_thread_begins(), pytest.raises(NoThreadError):
        try_out({}, provider="minilm")


def test_a_half_filled_form_fails_with_its_faults_by_pointer_and_so_does_a_value_that_is_no_configuration():
    report = try_out({"url": "nonsense", "batch_size": 0, "colour": "red", "model": None})
    stage = failed_stage(report)
    assert (stage.name, report.error_type) == ("config", "invalid_config")
    assert stage.faults == (
        Fault("/url", "URL must be http(s)://host[:port][/path], without credentials or query"),
        Fault("/batch_size", "Batch size must be at least 1"),
        Fault("/colour", "There is no field 'colour'"),
    )
    for no_configuration in (None, [], "text", 7):
        assert failed_stage(try_out(no_configuration)).name == "config"
    assert set(ERROR_TYPES) == set(USUAL), "each has its sentence"


def test_placeholders_stand_in_secrets_and_the_url_only_and_those_that_cannot_be_resolved_fail_by_pointer():
    report = try_out({"api_key": "${RAG_MISSING_API_KEY}", "model": "${PATH}"})
    stage = failed_stage(report)
    assert (stage.name, report.error_type) == ("placeholders", "invalid_config")
    assert {fault.pointer for fault in stage.faults} == {"/api_key", "/model"}
    assert "RAG_MISSING_API_KEY" in stage.faults[0].message
    report = try_out({"api_key": "${RAG_PLANTED_API_KEY}"}, environ={"RAG_PLANTED_API_KEY": "x" * 5000})
    stage = failed_stage(report)
    assert [fault.pointer for fault in stage.faults] == ["/api_key"]
    assert stage.name == "placeholders"
    with raw_server(saying(response())) as server:
        environ = {**ENVIRON, "RAG_STUB_URL": server.url}
        config = {"url": "${RAG_STUB_URL}", "api_key": "${RAG_PLANTED_API_KEY}", "batch_size": 1}
        assert try_out(config, environ=environ).success
        asked = len(list(filter(None, server.requests)))
        for field in ("model", "batch_size", "timeout_seconds"):
            stage = failed_stage(try_out({**config, field: "${RAG_PLANTED_API_KEY}"}, environ=environ))
            assert (stage.name, stage.faults[0].pointer) == ("placeholders", f"/{field}")
        assert len(list(filter(None, server.requests))) == asked


@pytest.mark.parametrize(
    ("answer", "stage", "error_type"),
    [
        (response(b"{}", "401 Unauthorized"), "authenticate", "authentication"),
        (response(b"{}", "402 Payment Required"), "authenticate", "authorization"),
        (response(b"{}", "403 Forbidden"), "authenticate", "authorization"),
        (response(b"{}", "404 Not Found"), "capability", "not_found"),
        (response(b"{}", "429 Too Many Requests", Retry_After="3600"), "authenticate", "rate_limit"),
        (response(b"{}", "418 I'm a teapot"), "authenticate", "unknown"),
        (response(b"{}"), "authenticate", "unknown"),
        (response(b"<html>"), "authenticate", "unknown"),
    ],
)
def test_a_refusal_has_its_type_and_stage(answer, stage, error_type):
    with raw_server(saying(answer)) as server:
        report = try_out({"url": server.url, "api_key": "${RAG_PLANTED_API_KEY}"})
    assert (failed_stage(report).name, report.error_type) == (stage, error_type)


def test_a_key_that_is_only_refused_when_it_is_used_fails_where_credentials_are_told_and_zeros_where_used(models):
    models.routes["/v1/embeddings"] = lambda body: openai_answer(body, meanings={"": [0.0]})
    assert "zeros" in failed_stage(try_out({"url": f"{models.url}/v1", "model": "m"})).message
    models.routes["/v1/chat/completions"] = lambda body: Answer(401)
    report = try_out({"url": f"{models.url}/v1", "model": "m", "api_key": "wrong"}, kind="llm")
    assert (failed_stage(report).name, report.error_type) == ("authenticate", "authentication")


@pytest.mark.parametrize(
    ("refusal", "most"), [(Answer(422, b"not more than 10"), 10), (Answer(413), 8), (Answer(414), 8), (Answer(200), 8)]
)
def test_as_many_texts_are_tried_as_uploads_send_and_the_most_that_are_taken_is_told(models, refusal, most):
    models.routes["/v1/embeddings"] = lambda body: openai_answer(body) if len(body["input"]) <= 10 else refusal
    report = try_out({"url": f" {models.url.upper()}/v1 ", "model": "m"})
    assert report.success
    assert {each: value for each, value in report.details.items() if "per_call" in each} == {"max_texts_per_call": most}
    assert f"at most {most} texts a call" in report.stages[-1].message


class Shelf(RagProvider):
    """A provider that does what the test gives it."""

    id = "shelf"
    display_name = "Shelf"
    closed = 0

    @classmethod
    def connection_schema(cls):
        return {"type": "object", "properties": {"token": {"type": "string", "writeOnly": True}}}

    def check(self):
        return {"version": "1", "nested": {"a": 1}, "seen": None}

    def collections(self):
        return [CollectionInfo(name, 1, {}, "cosine", 2) for name in ("a", "b")]

    def close(self):
        type(self).closed += 1


def shelf(**methods) -> ProviderRegistry:
    registry = ProviderRegistry()
    registry.register(type("AShelf", (Shelf,), methods))
    return registry


def test_collections_are_named_and_counted():
    registry = shelf()
    report = try_out({}, kind="rag", provider="shelf", registry=registry)
    assert (report.method, report.collections_count, report.collections) == ("list_collections", 2, A_AND_B)
    assert report.details == {"version": "1", "collections_count": 2}
    assert registry.provider("rag", "shelf").closed == 1


@pytest.mark.parametrize("where", ["check", "try_out"])
@pytest.mark.parametrize(
    ("error", "error_type"),
    [
        (UnavailableError(f"hunter {SECRET}", error_type="rate_limit"), "rate_limit"),
        (UnavailableError("x", error_type="of its own making"), "unknown"),
        (RuntimeError(SECRET), "unknown"),
        (TimeoutError(SECRET), "timeout"),
        (ConnectionError(SECRET), "network"),
        (SystemExit(SECRET), "unknown"),
    ],
)
def test_whatever_a_provider_raises_is_a_coarse_report(where, error, error_type):
    def fail(self):
        raise error

    registry = shelf(**{where: fail})
    with structlog.testing.capture_logs() as logs:
        report = try_out({}, kind="rag", provider="shelf", registry=registry)
    assert failed_stage(report).name == {"check": "authenticate", "try_out": "capability"}[where]
    assert report.error_type == error_type
    assert SECRET not in str(report) + str(logs)
    assert registry.provider("rag", "shelf").closed == 1


def test_a_provider_and_a_resolver_that_hang_where_nothing_can_be_cut_are_given_up():
    released = threading.Event()

    def hang(*arguments, **options):
        released.wait(PATIENCE_SECONDS)
        return {}

    registry = shelf(check=hang)
    for stage, config, options in (
        ("authenticate", {}, {"kind": "rag", "provider": "shelf", "registry": registry}),
        ("address", {"url": "http://service.example"}, {"resolve": hang}),
    ):
        report = cut_in(stage, config, **options)
        assert (failed_stage(report).name, report.error_type) == (stage, "timeout")
    assert registry.provider("rag", "shelf").closed == 0
    released.set()
    wait_for_ends_of_tests()
    assert registry.provider("rag", "shelf").closed == 1
