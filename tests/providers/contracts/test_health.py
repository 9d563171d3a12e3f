"""Seed 003, "Health Check with Details", for every provider."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from schemas.connections import DEGRADED, ERROR_TYPES, HEALTHY, UNHEALTHY
from schemas.errors import RagError


def test_health_tells_status_time_and_what_the_service_says(provider, backend, made):
    made()
    report = provider.health()
    assert report.status in (HEALTHY, DEGRADED)
    assert (report.provider, report.error) == (provider.id, None)
    assert datetime.fromisoformat(report.timestamp).utcoffset() == timedelta(0)
    assert report.details["url"] == backend[1].config.get("url")
    assert report.details["response_time_ms"] >= 0
    assert report.details["collections_count"] == len(provider.collections())
    assert report.details.keys() >= backend[1].details
    assert report.details.get("storage_bytes", 1) > 0


@pytest.fixture
def gone(backend, registry):
    name, found = backend
    config, context = found.gone
    options = {} if name == "local" or "path" in config else {"sleep": lambda seconds: None}
    with registry.provider("rag", name)(config, context, **options) as provider:
        yield provider


def test_health_never_raises_when_the_backend_is_gone(gone):
    report = gone.health()
    assert report.status == UNHEALTHY
    assert report.message == report.error
    assert report.details["error_type"] in ERROR_TYPES
    assert report.details["response_time_ms"] >= 0
    if report.details["url"]:
        assert report.details["error_type"] == "network"


def test_everything_else_says_what_is_wrong(gone):
    for ask in (gone.collections, gone.try_out, gone.check, lambda: gone.documents("abc")):
        with pytest.raises(RagError):
            ask()


def test_a_closed_provider_is_closed_again_and_opens_what_it_needs(backend, registry, made):
    name, found = backend
    provider = registry.connect("rag", name, found.config, found.context)
    collection = made()
    assert provider.collection(collection).count == 0
    provider.close()
    provider.close()
    assert provider.collection(collection).count == 0
    provider.close()
