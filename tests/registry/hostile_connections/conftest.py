"""Test connections and check that nothing planted becomes visible."""

import pytest
import structlog

from providers.outbound.json_client import RetryPolicy
from providers.outbound.vendor_dialect import VendorDialect
from tests.registry.hostile import SECRET, wait_for_ends_of_tests
from tests.registry.hostile import try_out as report_of
from tests.support.notations import METADATA


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """Have no test wait before a request is repeated."""
    monkeypatch.setattr(VendorDialect, "retry", RetryPolicy(first_wait_seconds=0.001))


@pytest.fixture
def try_out(caplog, capfd):
    """`hostile.try_out`, with a check that nothing planted appears in a report, the log or the output."""
    caplog.set_level("DEBUG")

    def attempt(config, **options):
        with structlog.testing.capture_logs() as logs:
            report = report_of(config, **options)
            wait_for_ends_of_tests()
        out, err = capfd.readouterr()
        said = str(report) + str(logs) + caplog.text + out + err
        for planted in (SECRET, METADATA, "a9fe", "planted-", "Traceback"):
            assert planted not in said
        return report

    return attempt
