"""What becomes of mails: every text part is read once, headers are in any encoding, and what is left out is named."""

from base64 import b64encode

import pytest

from retrieval.parsing.mails import parse_email, parse_mbox
from retrieval.parsing.parsed import UnreadableError

LONG = "Twelve pumps are offered. " * 20
PDF = "Content-Type: application/pdf; name=a.pdf\n\nx"
INNER = "From: Carl\nSubject: Inner\n\nInner words."
READ_INNER = "## Inner\n\nFrom: Carl\n\nInner words."
MAIL = "Content-Type: message/rfc822\n"
CALENDAR = (
    "Content-Type: text/calendar\n\nBEGIN:VTIMEZONE\nDTSTART:19700101T000000\nEND:VTIMEZONE\nBEGIN:VEVENT\n"
    "SUMMARY:Review\\, part\n  two\nDTSTART;TZID=Europe/Berlin:20260302T100000\nBEGIN:VALARM\nDESCRIPTION:Ring\n"
    "END:VALARM\nLOCATION:Hall 7\nEND:VEVENT"
)
SIGNATURE = "-----BEGIN PGP SIGNATURE-----\nx\n-----END PGP SIGNATURE-----\n"


def mail(rest, subject="Tides"):
    return f"From: Ann <ann@example.org>\nSubject: {subject}\n{rest}".encode()


def parts(kind, *given):
    mark = f"b{len(''.join(given))}"
    inner = "".join(f"--{mark}\n{each}\n" for each in given)
    return f"Content-Type: multipart/{kind}; boundary={mark}\n\n{inner}--{mark}--\n"


def plain(text, more=""):
    return f"Content-Type: text/plain; charset=utf-8{more}\n\n{text}"


def html(text):
    return f"Content-Type: text/html\n\n<p>{text}</p>"


@pytest.mark.parametrize(
    ("rest", "body"),
    [
        (parts("mixed", html("17 April"), plain("A list")), "17 April\n\nA list"),
        (parts("mixed", plain("One"), PDF, plain("Two")), "One\n\nTwo"),
        (parts("alternative", plain(""), html("Pumps")), "Pumps"),
        (parts("alternative", plain("Pumps"), html("Pumps")), "Pumps"),
        (parts("alternative", plain("Turn HTML on."), parts("related", html(LONG), PDF)), LONG.strip()),
        (parts("alternative", plain("Whole"), parts("mixed", html("Whole"), PDF, html("more"))), "Whole"),
        (parts("mixed", html("Look"), f"{MAIL}\n{INNER}"), f"Look\n\n{READ_INNER}"),
        (parts("mixed", plain("Look"), f"{MAIL}Content-Disposition: attachment\n\n{INNER}"), f"Look\n\n{READ_INNER}"),
        (
            parts("mixed", f"{MAIL}Content-Transfer-Encoding: base64\n\n{b64encode(INNER.encode()).decode()}"),
            READ_INNER,
        ),
        (parts("digest", f"\n{INNER}"), READ_INNER),
        (
            parts("report", plain("Failed"), "Content-Type: message/delivery-status\n\nX: 1\n\nStatus: 5.1.1"),
            "Failed\n\nX: 1\n\nStatus: 5.1.1",
        ),
        (
            parts("alternative", plain("Come"), CALENDAR),
            "Come\n\nSummary: Review, part two\nStart: 2026-03-02 10:00 Europe/Berlin\nLocation: Hall 7",
        ),
        (parts("mixed", "Content-Type: text/x-diff; name=a\nContent-Disposition: inline\n\n-old"), "-old"),
        (parts("signed", plain("Signed"), "Content-Type: application/pgp-signature\n\nx"), "Signed"),
        (f"\n-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nSigned\n{SIGNATURE}", "Signed"),
        (plain("A line \ngoes on.\n> said \n> on\n-- \nB", "; format=flowed"), "A line goes on.\n> said on\n\\-- \nB"),
        (plain("長い \n行", "; format=flowed; delsp=yes"), "長い行"),
    ],
)
def test_every_text_part_is_read_once_and_mails_in_mails_are_sections(rest, body):
    assert parse_email(mail(rest)).text == f"# Tides\n\nFrom: Ann <ann@example.org>\n\n{body}\n"


@pytest.mark.parametrize(
    ("rest", "left_out"),
    [
        (parts("alternative", plain("Whole"), parts("mixed", html("Whole"), PDF)), "Attachments are left out: a.pdf"),
        (
            parts("mixed", plain("x"), plain("y", "\nContent-Disposition: attachment; filename*=gb2312''%D6%EC.txt")),
            "Attachments are left out: 朱.txt",
        ),
        (
            parts("mixed", plain("x"), "Content-Type: application/ms-tnef; name=winmail.dat\n\nx"),
            "Attachments are left out: winmail.dat (of Outlook, which may hold text and files)",
        ),
        ("\nx\n-----BEGIN PGP MESSAGE-----\ny\n-----END PGP MESSAGE-----", "Encrypted parts are left out: 1"),
        (html(f"x<div style='display:none;max-height:0'>{LONG}</div>"), "Hidden passages are left out: 1"),
    ],
)
def test_what_of_a_mail_is_left_out_is_named(rest, left_out):
    assert parse_email(mail(rest)).warnings == [left_out]


def test_a_mailbox_reads_its_mails_in_the_same_way():
    written = mail(parts("alternative", plain(""), parts("mixed", html("Pumps"), PDF)))
    document = parse_mbox(b"From ann\n" + written + b"\n\nFrom ann\n" + written)
    assert document.text.strip().split("\n\n") == ["# Tides", "From: Ann <ann@example.org>", "Pumps"] * 2
    assert document.warnings == ["Attachments are left out: a.pdf, a.pdf"]


@pytest.mark.parametrize(
    ("subject", "read"),
    [
        ("=?gb2312?B?1uzpRrv5?=", "朱镕基"),
        ("=?utf-8?q?a=C3?=\n =?utf-8?q?=A9_b?= c =?x?q?d?=", "aé b c d"),
        ("=?iso-2022-jp?B?GyRCLSEbKEI=?=", "①"),
        ("=?utf-8?q?Ready??=", "Ready?"),
        ("Тема", "Тема"),
        (f"=?utf-8?b?{'YWFh' * 250_000}?=", "aaa" * 250_000),
    ],
    ids=["gbk", "divided", "row 13", "question", "raw", "a megabyte"],
)
def test_subjects_are_read_in_the_encodings_of_mail_programs(subject, read):
    assert parse_email(mail("\nx", subject)).title == read


def test_raw_headers_are_in_the_encoding_of_the_text():
    written = "From: Анна\nSubject: Тема\nContent-Type: text/plain; charset=koi8-r\n\nТекст".encode("koi8-r")
    document = parse_email(written)
    assert (document.title, document.metadata, document.text.split()[-1]) == ("Тема", {"author": "Анна"}, "Текст")


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (mail(parts("encrypted", PDF)), "encrypted", "is encrypted"),
        (mail("Content-Type: application/pkcs7-mime; smime-type=enveloped-data\n\nx"), "encrypted", "is encrypted"),
        (mail(parts("mixed", PDF)), "empty", "contains no text, only attachments: a.pdf"),
        (b"From: a\n" + f"{MAIL}\nFrom: b\n".encode() * 2_000, "unreadable", "is nested too deeply"),
    ],
)
def test_mails_without_text_say_why(content, code, message):
    with pytest.raises(UnreadableError) as caught:
        parse_email(content)
    assert (caught.value.code, caught.value.message) == (code, message)
