"""The certificate of the service: faults name the variable, and replaced files are taken up."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.x509 import load_der_x509_certificate

from schemas.errors import ConfigurationError
from tests.support.logs import logs_of
from tests.wrapper.clock import Clock
from tests.wrapper.serving.certificates import replace, write_pair
from wrapper.serving.certificate import LOOK_SECONDS, Certificate, tls_context, validity_warnings


@pytest.fixture
def pair(tmp_path):
    return write_pair(tmp_path)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def certificate(pair, clock):
    return Certificate(str(pair.cert), str(pair.key), clock)


@pytest.fixture
def looked(certificate, clock, monkeypatch):
    """A function that lets the certificate look a few times, and returns what it logs, whatever level is set."""

    def look(times=1):
        logs = logs_of(monkeypatch, "wrapper.serving.certificate")
        for _ in range(times):
            clock.now += LOOK_SECONDS
            certificate.look()
        return [each["event"] for each in logs]

    return look


def served(context):
    """Return the serial number of the certificate that a client sees, and the version of TLS."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    client = asking.wrap_bio(to_client, to_server)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return load_der_x509_certificate(client.getpeercert(True)).serial_number, client.version()


def encrypted(pair):
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    protection = serialization.BestAvailableEncryption(b"a passphrase")
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda pair: pair.cert.unlink(), "RAG_TLS_CERT: the file cannot be read: No such file or directory"),
        (lambda pair: pair.key.unlink(), "RAG_TLS_KEY: the file cannot be read: No such file or directory"),
        (lambda pair: pair.cert.write_text("no"), "RAG_TLS_CERT: the file holds no certificate in PEM"),
        (lambda pair: pair.key.write_text("no"), "RAG_TLS_KEY: the file holds no private key in PEM"),
        (lambda pair: pair.key.write_bytes(pair.cert.read_bytes()), "RAG_TLS_KEY: the file holds no private key"),
        (lambda pair: pair.key.write_bytes(encrypted(pair)), "RAG_TLS_KEY: the key needs a passphrase"),
        (
            lambda pair: pair.key.write_bytes(
                trustme.CA().issue_cert("other", key_type=trustme.KeyType.RSA).private_key_pem.bytes()
            ),
            "RAG_TLS_KEY: the key does not fit the certificate in RAG_TLS_CERT",
        ),
        (lambda pair: (pair.key.unlink(), pair.key.mkdir()), "RAG_TLS_KEY: the file cannot be read: Is a directory"),
    ],
)
def test_each_fault_is_one_sentence_that_names_the_variable_and_no_path(pair, spoil, sentence):
    spoil(pair)
    with pytest.raises(ConfigurationError) as wrong:
        tls_context(str(pair.cert), str(pair.key))
    assert wrong.value.message.startswith(sentence)
    assert str(pair.cert.parent) not in wrong.value.message
    assert wrong.value.details["field"] == sentence.partition(":")[0]


def test_nothing_older_than_tls_1_2_is_spoken(pair):
    context = tls_context(str(pair.cert), str(pair.key))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert served(context) == (pair.serial, "TLSv1.3")


def test_a_certificate_is_warned_of_before_and_after_its_time(tmp_path):
    ends = datetime(2020, 5, 6, tzinfo=UTC)
    pair = write_pair(tmp_path, not_before=ends - timedelta(days=9), not_after=ends)
    (expired,) = validity_warnings(str(pair.cert), ends + timedelta(seconds=1))
    assert expired == "RAG_TLS_CERT: the certificate expired on 2020-05-06 00:00 UTC: clients will refuse it"
    assert validity_warnings(str(pair.cert), ends - timedelta(seconds=1)) == []
    (early,) = validity_warnings(str(pair.cert), ends - timedelta(days=10))
    assert "not valid before 2020-04-27" in early


def test_a_replaced_pair_is_taken_up_when_it_is_time_to_look(certificate, looked, tmp_path):
    before = certificate.context
    assert looked(times=5) == [], "unchanged files are left alone"
    assert certificate.context is before
    new = write_pair(tmp_path)
    for _ in range(5):
        certificate.look()
    assert certificate.context is before
    assert looked(times=3) == ["the certificate was replaced"]
    assert served(certificate.context)[0] == new.serial


def test_a_file_that_is_gone_while_it_is_taken_up_leaves_the_certificate(certificate, looked, tmp_path, monkeypatch):
    before = certificate.context
    write_pair(tmp_path)

    def gone(*_):
        raise ConfigurationError("the file cannot be read")

    monkeypatch.setattr("wrapper.serving.certificate.validity_warnings", gone)
    assert looked(times=3) == []
    assert certificate.context is before


def test_a_renewal_that_takes_its_time_between_the_two_files_raises_no_alarm(certificate, looked, pair, tmp_path):
    old = pair.serial
    (tmp_path / "new").mkdir()
    new = write_pair(tmp_path / "new")
    replace(pair.cert, new.cert.read_bytes())
    assert looked(times=50) == []
    assert served(certificate.context)[0] == old
    replace(pair.key, new.key.read_bytes())
    assert looked(times=100) == ["the certificate was replaced"]
    assert served(certificate.context)[0] == new.serial


def test_files_that_keep_changing_and_are_no_pair_are_reported(looked, pair):
    found = []
    for number in range(50):
        replace(pair.key, f"no key {number}".encode())
        found += looked(times=2)
    assert found == ["the files of the certificate cannot be used, the one before stays"]


@pytest.mark.parametrize("spoil", [lambda key: key.write_text("no"), lambda key: key.unlink()], ids=["broken", "gone"])
def test_a_broken_pair_leaves_the_old_one_and_is_reported_once(certificate, looked, pair, spoil, tmp_path):
    old = pair.serial
    write_pair(tmp_path)
    spoil(pair.key)
    assert looked(times=30) == []
    assert looked(times=100) == ["the files of the certificate cannot be used, the one before stays"]
    assert served(certificate.context)[0] == old
    new = write_pair(tmp_path)
    assert looked(times=3) == ["the certificate was replaced"]
    assert served(certificate.context)[0] == new.serial


def test_a_replacement_that_has_expired_is_taken_and_warned_of(looked, tmp_path):
    ends = datetime(2020, 5, 6, tzinfo=UTC)
    write_pair(tmp_path, not_before=ends - timedelta(days=9), not_after=ends)
    replaced, expired = looked(times=3)
    assert (replaced, "expired on 2020-05-06" in expired) == ("the certificate was replaced", True)
