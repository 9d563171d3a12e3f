"""A configuration is stored with its secrets as placeholders only."""

import pytest

from registry.placeholders.secret_fields import secret_faults
from schemas.configuration import read_schema
from schemas.connections import Fault
from tests.registry.placeholders.planted import ADDRESS


@pytest.mark.parametrize(
    "value", ["sk-literal", "Bearer ${OPENAI_API_KEY}", "${OPENAI_API_KEY}x", "${}", "$$", 7, ["x"], ""]
)
def test_a_secret_is_not_stored_in_clear(value):
    faults = secret_faults({"url": "http://host", "api_key": value}, read_schema("embedding-openai"))
    assert [fault.pointer for fault in faults] == ["/api_key"]
    assert "literal" not in faults[0].message


@pytest.mark.parametrize("value", ["${OPENAI_API_KEY}", "${file:/run/secrets/key}", "${RAG_A}${RAG_B}", None])
def test_a_secret_is_stored_as_placeholders(value):
    assert secret_faults({"api_key": value}, read_schema("embedding-openai")) == []


def test_a_secret_within_another_field_counts_too():
    schema = {"properties": {"auth": {"properties": {"token": {"writeOnly": True, "title": "Token"}}}}}
    assert secret_faults({"auth": {"token": "x"}}, schema) == [
        Fault("/auth/token", secret_faults({"auth": {"token": "x"}}, schema)[0].message)
    ]
    assert secret_faults({"auth": "x"}, schema) == []


@pytest.mark.parametrize(
    ("url", "is_kept"),
    [
        ("https://host/v1", True),
        ("https://host/openai/deployments/gpt-4o-mini-2024-07-18/v1", True),
        ("https://host/api/workspaces/3f2b8c1e-0000-4000-8000-1234567890ab/v1", True),
        ("https://host/${NO_PLACE}", True),
        ("https://host/bot123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11/x", False),
        ("https://host/services/T00000000/B00000000/a1B2c3D4e5F6g7H8i9J0k1L2", False),
    ],
)
def test_an_address_with_something_like_a_key_in_its_path_is_not_stored(url, is_kept):
    assert [fault.pointer for fault in secret_faults({"url": url}, ADDRESS)] == ([] if is_kept else ["/url"])
