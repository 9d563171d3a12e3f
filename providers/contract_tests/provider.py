"""The duties of every provider, whatever its kind: its form, its configuration, its health, its end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from providers.base import Provider
from providers.contract_tests.samples import errors_of, nobody_there
from schemas.configuration import secrets
from schemas.connections import DEGRADED, ERROR_TYPES, HEALTHY, KINDS, UNHEALTHY, InvalidConfigurationError
from schemas.errors import RagError

MISFITS = {"string": 7, "integer": "near", "number": "near", "boolean": "maybe", "array": 7, "object": 7}
"""A value that does not fit, for each type of a JSON Schema."""


class ProviderTests:
    """Subclasses override `provider`, and `gone` where no `url` of the configuration leads to the service."""

    @pytest.fixture
    def provider(self) -> Provider:
        """Return a provider that is connected to a service which the tests may change."""
        pytest.fail("override the fixture `provider`: it returns a connected provider")

    @pytest.fixture
    def gone(self, provider: Provider) -> Iterator[Provider]:
        """Yield a provider like `provider` whose service is not there."""
        if "url" not in provider.config:
            pytest.fail("override the fixture `gone`: it returns a provider whose service is not there")
        with type(provider)({**provider.config, "url": nobody_there()}, provider.context) as gone:
            yield gone

    def test_it_says_who_it_is(self, provider: Any) -> None:
        assert provider.kind in KINDS
        assert provider.id == provider.id.strip() != ""
        assert provider.display_name
        assert provider.unavailable_because() is None

    def test_its_connection_schema_makes_a_form(self, provider: Any) -> None:
        schema = provider.connection_schema()
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False, "a field that nobody reads is a user's mistake"
        assert all("title" in field for field in schema["properties"].values())

    def test_a_configuration_that_fits_connects(self, provider: Any) -> None:
        with type(provider)(provider.config, provider.context) as again:
            assert again.config == provider.config

    def test_a_configuration_that_does_not_fit_is_refused_by_field(self, provider: Any) -> None:
        fields = provider.connection_schema()["properties"]
        misfits = {name: MISFITS[field["type"]] for name, field in fields.items() if field.get("type") in MISFITS}
        for name, value in {"no_such_field": 1, **misfits}.items():
            with pytest.raises(InvalidConfigurationError) as raised:
                type(provider)({**provider.config, name: value}, provider.context)
            assert f"/{name}" in [fault["pointer"] for fault in raised.value.details["errors"]]
            assert raised.value.details["error_type"] == "invalid_config"

    def test_health_is_a_report(self, provider: Any) -> None:
        report = provider.health()
        assert report.status in (HEALTHY, DEGRADED)
        assert (report.provider, report.error) == (provider.id, None)
        assert datetime.fromisoformat(report.timestamp).utcoffset() == timedelta(0)
        assert report.details["url"] == provider.address(provider.config)
        assert report.details["response_time_ms"] >= 0

    def test_health_never_raises_when_the_service_is_gone(self, gone: Any) -> None:
        report = gone.health()
        assert report.status == UNHEALTHY
        assert report.message == report.error
        assert report.details["error_type"] in ERROR_TYPES
        assert report.details["response_time_ms"] >= 0
        if report.details["url"]:
            assert report.details["error_type"] == "network"

    def test_everything_else_says_what_is_wrong_when_the_service_is_gone(self, gone: Any) -> None:
        for error in errors_of([gone.check, gone.try_out]):
            assert isinstance(error, RagError)
            assert error.message

    def test_no_secret_is_told(self, provider: Any, gone: Any) -> None:
        kept = [str(provider.config[name]) for name in secrets(provider.connection_schema()) & provider.config.keys()]
        errors = [f"{error} {error.details}" for error in errors_of([gone.check, gone.try_out])]
        told = f"{provider.health()} {gone.health()} {provider.limits} {errors}"
        assert [secret for secret in kept if secret in told] == []

    def test_a_closed_provider_is_closed_again_and_opens_what_it_needs(self, provider: Any) -> None:
        with type(provider)(provider.config, provider.context) as again:
            for _ in range(2):
                assert again.check().keys() == provider.check().keys()
                again.close()
                again.close()
