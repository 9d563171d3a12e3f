"""Keys and tokens are cut out of what is written down, and long texts take no longer for it."""

import base64
from itertools import product

import pytest

from schemas.access.api_keys import new_text
from schemas.access.credentials_in_text import (
    MARGIN,
    MAX_ESCAPES,
    cleaned_beginning,
    thorough,
    through_escapes,
    without_credentials,
    without_pieces_of_keys,
)

SECRET = "s" * 43


def encoded(*texts, altchars=None):
    return base64.b64encode("".join(texts).encode(), altchars).decode()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"/collections/rw_ab12cd34_{SECRET}/x", "/collections/rw_ab12cd34_…/x"),
        (f'{{"a":"rw_ab12cd34_{SECRET}","b":"rw_zz12cd34_{SECRET}"}}', '{"a":"rw_ab12cd34_…","b":"rw_zz12cd34_…"}'),
        ("Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJtZSJ9.c2ln-_ rejected", "Bearer eyJ… rejected"),
        ("unsigned eyJhbGciOiJub25lIn0.eyJzdWIiOiJtZSJ9.", "unsigned eyJ…"),
        ("/collections/rw_customer_documents_archive", "/collections/rw_customer_documents_archive"),
        ("rw_ab12cd34 was revoked", "rw_ab12cd34 was revoked"),
        ("rw_ab12cd34_short eyJnoTokenAtAll", "rw_ab12cd34_short eyJnoTokenAtAll"),
    ],
)
def test_only_the_secret_goes(text, left):
    assert without_credentials(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"/rw_ab12cd34_{'sA1-' * 10}%{'sA1'}", "/rw_ab12cd34_…"),
        (f"/collections/rw_ab12cd34_{'sA1_' * 4}/x", "/collections/rw_ab12cd34_…/x"),
        (f"/collections/rw_ab12cd34_{'sA1_' * 3}", f"/collections/rw_ab12cd34_{'sA1_' * 3}"),
        ("/collections/rw_customer_documents_archive_2", "/collections/rw_customer_documents_archive_2"),
        (f"INVALID HEADER: 'RW_AB12CD34_{SECRET.upper()}'", "INVALID HEADER: 'RW_AB12CD34_…'"),
        ("/collections/RW_CUSTOMER_DOCUMENTS_ARCHIVE_2", "/collections/RW_CUSTOMER_DOCUMENTS_ARCHIVE_2"),
        ("/collections/crw_database_Connection_pool_x", "/collections/crw_database_…"),
        (f"'\\trw_ab12cd34_{'sA1_' * 4}'", "'\\trw_ab12cd34_…'"),
        (f"Basic {encoded('ada:', 'rw_ab12cd34_', SECRET)}: x", "Basic …: x"),
        (f"/{encoded('', 'rw_ab12cd34_', SECRET).rstrip('=')}/x", "…"),
        (f"/{encoded('ä?>:', 'rw_ab12cd34_', SECRET, altchars=b'-_')}", "…"),
        (f"/{encoded('a name that nobody takes for a key', SECRET)}",) * 2,
        ("/" + "a" * 101, "/" + "a" * 101),
    ],
)
def test_pieces_of_keys_go_and_names_stay(text, left):
    assert without_pieces_of_keys(text) == left


def test_a_key_in_base64_is_found_wherever_it_begins():
    for before, user in product(("", "/", "/a", "/ab"), ("", "a:", "ab:")):
        assert without_pieces_of_keys(before + encoded(user, "rw_ab12cd34_", SECRET)) == "…"


def test_every_key_that_is_made_is_found():
    assert without_credentials(new_text("ab12cd34")) == "rw_ab12cd34_…"


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["eyJ", "rw_", "rw_aaaaaaaa_%", "RW_AAAAAAAA_"])
def test_a_long_text_is_read_in_one_go(piece):
    without_pieces_of_keys(
        without_credentials(piece * (6_000_000 // len(piece)))
    )  # a pattern that tries again from every place would take minutes


def test_of_the_beginning_of_a_text_no_key_is_shown_that_is_cut_in_two():
    key = f"/rw_ab12cd34_{SECRET}"
    texts = ["x" * begins_at + key + "y" * 2 * MARGIN for begins_at in range(1_000 + MARGIN)]
    # Cleaned, each is shorter than the part of it that is read.
    texts += ["x" * begins_at + key * 100 for begins_at in range(len(key))]
    for text in texts:
        shown = cleaned_beginning(text, 1_000, without_credentials)
        assert len(shown) <= 1_000
        assert "ss" not in shown


def test_no_more_of_a_text_is_cleaned_than_is_shown():
    read = []
    shown = cleaned_beginning("x" * 1_000_000, 100, lambda text: read.append(len(text)) or text)
    assert (shown, read) == ("x" * 100, [100 + MARGIN])


def escaped(text, which, times):
    """Return a text with these characters escaped so many times."""
    spelt = {each: f"%{'25' * (times - 1)}{ord(each):02X}" for each in which} if times else {}
    return "".join(spelt.get(each, each) for each in text)


@pytest.mark.parametrize("which", ["_", "rw_ab12cd34s"], ids=["underscores", "all of it"])
@pytest.mark.parametrize("times", range(MAX_ESCAPES + 1))
def test_a_key_is_found_however_often_it_is_escaped(times, which):
    key = escaped(f"rw_ab12cd34_{SECRET}", which, times)
    assert len(key) < MARGIN
    assert through_escapes(without_credentials)(f"/a/{key}/b") == "/a/rw_ab12cd34_…/b"
    both = through_escapes(without_credentials)(f"/rw_zz12cd34_{SECRET}/{key}")
    assert both == "/rw_zz12cd34_…/rw_ab12cd34_…"


@pytest.mark.parametrize("text", ["/a%20b/100%", "%", "%25252525", "/é%C3%A9/\ud800", ""])
def test_a_text_without_keys_stays_as_it_is_escaped(text):
    assert through_escapes(without_credentials)(text) == text


def test_a_piece_of_a_key_that_its_escape_spoils_is_not_shown_because_another_key_is_found():
    text = f"/rw_ab12cd34_{'sA1-' * 3}%2FsA1/rw%5Fzz12cd34_{SECRET}"
    assert thorough(without_credentials)(text) == "/rw_ab12cd34_…/rw_zz12cd34_…"
