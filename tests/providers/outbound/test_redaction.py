"""No spelling of a connection's secret values is left after redaction."""

import base64
import json
from html import escape
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.outbound.redaction import Redactor
from schemas.errors import UnavailableError

SECRETS = (
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=12, max_size=40)
    .map(str.strip)
    .filter(lambda secret: len(secret) >= 12)
)


@given(SECRETS, st.text(max_size=9), st.text(max_size=9))
def test_no_spelling_of_a_value_is_left(secret, before, after):
    redact = Redactor([secret])
    spellings = [secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1], escape(secret)]
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(f"{before}{secret}{after}".encode()).decode()
        assert redact(f"Basic {whole}") != f"Basic {whole}"
    for spelling in spellings:
        assert spelling not in redact(f"{before} {spelling} {after}")


SAID = {"planted": ["a planted b", {"n": 1, "deep": ("planted",)}], "other": None}
CLEAN = {"***": ["a *** b", {"n": 1, "deep": ("***",)}], "other": None}
IN_URLS_AND_HTML = ("a%2Fb%3Dc%26d", "a%2fb%3dc%26d", "a/b%3Dc%26d", "a/b=c&amp;d")


@pytest.mark.parametrize(
    ("secrets", "said", "shown"),
    [
        ([" planted\n"], "Bearer planted", "Bearer ***"),
        *((["a/b=c&d"], f"({spelling})", "(***)") for spelling in IN_URLS_AND_HTML),
        (["planted"], SAID, CLEAN),
        (["abc", ""], "abc", "abc"),  # too short to be a secret
        *((["planted"], value, value) for value in (None, 7, 1.5, True)),
    ],
)
def test_values_are_known_however_they_are_sent_and_nothing_else_is_hidden(secrets, said, shown):
    assert Redactor(secrets)(said) == shown


def test_every_part_of_an_error_is_cleaned():
    error = UnavailableError("sent planted", reason="planted", nested=["planted"])
    Redactor(["planted"]).clean(error)
    assert "planted" not in f"{error} {error.message} {error.details} {error.args}"
