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


def test_a_key_is_known_as_it_is_sent_without_surrounding_white_space():
    assert Redactor([" planted\n"])("Bearer planted") == "Bearer ***"


@pytest.mark.parametrize("spelling", ["a%2Fb%3Dc%26d", "a%2fb%3dc%26d", "a/b%3Dc%26d", "a/b=c&amp;d"])
def test_a_value_is_known_in_urls_of_any_case_and_in_html(spelling):
    assert Redactor(["a/b=c&d"])(f"({spelling})") == "(***)"


def test_a_whole_json_value_is_cleaned_including_its_names():
    said = {"planted": ["a planted b", {"n": 1, "deep": ("planted",)}], "other": None}
    assert Redactor(["planted"])(said) == {"***": ["a *** b", {"n": 1, "deep": ("***",)}], "other": None}


def test_a_value_too_short_to_be_a_secret_hides_no_words():
    assert Redactor(["abc", ""])("abc") == "abc"


def test_every_part_of_an_error_is_cleaned():
    error = UnavailableError("sent planted", reason="planted", nested=["planted"])
    Redactor(["planted"]).clean(error)
    assert "planted" not in f"{error} {error.message} {error.details} {error.args}"


@pytest.mark.parametrize("value", [None, 7, 1.5, True])
def test_a_value_that_is_not_text_stays(value):
    assert Redactor(["planted"])(value) == value
