"""The service's certificate: read at the start, and again when its files have been replaced."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import structlog
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from schemas.errors import ConfigurationError

CERT, KEY = "RAG_TLS_CERT", "RAG_TLS_KEY"
LOOK_SECONDS = 1.0
REPORT_SECONDS = 60.0
"""How long files may be no pair before that is reported: a renewal may take its time between the two."""
PROTOCOL = "http/1.1"

log = structlog.get_logger(__name__)

Stamp = tuple[int, int, int, int]


class Certificate:
    """A certificate with its chain, and its private key, in two PEM files that may be replaced at any time.

    Not for several threads. A forked process begins with what its parent had read, and looks for itself. The files'
    faults raise ConfigurationError at the start only.
    """

    def __init__(self, cert_file: str, key_file: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._files = cert_file, key_file
        self._clock = clock
        self._looked_at = clock()
        self._loaded = self._seen = self._stamps()
        self._broken: tuple[float, str] | None = None
        self.context = tls_context(cert_file, key_file)

    def look(self) -> None:
        """Take the files as they are now, if they are a pair and not being replaced just now.

        It looks once in `LOOK_SECONDS`. Files that are no pair leave everything as it was, and are reported once, after
        `REPORT_SECONDS`.
        """
        now = self._clock()
        if now < self._looked_at + LOOK_SECONDS:
            return
        self._looked_at = now
        # Two files are not replaced at once: one look may find the new certificate beside the old key.
        before, self._seen = self._seen, self._stamps()
        if self._seen == before and self._seen != self._loaded:
            self._loaded = self._seen
            self._take(now)
        if self._broken is not None and now >= self._broken[0] + REPORT_SECONDS:
            log.error("the files of the certificate cannot be used, the one before stays", reason=self._broken[1])
            self._broken = None

    def _take(self, now: float) -> None:
        try:
            # A new context: loaded into the one in use, half of a broken pair would be in use, too.
            context = tls_context(*self._files)
            warnings = validity_warnings(self._files[0], datetime.now(UTC))
        except ConfigurationError as error:
            self._broken = now if self._broken is None else self._broken[0], error.message
            return
        self.context = context
        self._broken = None
        log.info("the certificate was replaced")
        for sentence in warnings:
            log.warning(sentence)

    def _stamps(self) -> tuple[Stamp, ...] | None:
        try:
            found = [os.stat(path) for path in self._files]
        except OSError:
            return None
        return tuple((each.st_dev, each.st_ino, each.st_ctime_ns, each.st_size) for each in found)


NO_PAIR = frozenset({"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"})
"""The reasons of OpenSSL for a key of another pair; the last one is for a key of another kind."""


def tls_context(cert_file: str, key_file: str) -> ssl.SSLContext:
    """Return what a server needs to speak TLS 1.2 and 1.3 with this pair.

    Raises ConfigurationError, whose sentence names the variable of the file that is at fault, and no path.
    """
    _certificates(cert_file)
    _check_key(key_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols([PROTOCOL])
    try:
        context.load_cert_chain(cert_file, key_file, password=_no_passphrase)
    except ssl.SSLError as error:
        if error.reason in NO_PAIR:
            raise _fault(KEY, f"the key does not fit the certificate in {CERT}") from None
        reason = (error.reason or "unknown reason").lower().replace("_", " ")
        raise _fault(CERT, f"the certificate cannot be used: {reason}") from None
    except OSError as error:  # replaced since it was read
        raise _fault(CERT, f"the file cannot be read: {error.strerror}") from None
    return context


def validity_warnings(cert_file: str, now: datetime) -> list[str]:
    """Return a sentence when the certificate does not hold at `now`. Raises ConfigurationError for no certificate."""
    certificate = _certificates(cert_file)[0]
    if now > certificate.not_valid_after_utc:
        ended = certificate.not_valid_after_utc
        return [f"{CERT}: the certificate expired on {ended:%Y-%m-%d %H:%M} UTC: clients will refuse it"]
    if now < certificate.not_valid_before_utc:
        begins = certificate.not_valid_before_utc
        return [f"{CERT}: the certificate is not valid before {begins:%Y-%m-%d %H:%M} UTC: clients will refuse it"]
    return []


def _certificates(path: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(_content(CERT, path))
    except ValueError:
        raise _fault(CERT, "the file holds no certificate in PEM") from None


def _check_key(path: str) -> None:
    try:
        load_pem_private_key(_content(KEY, path), None)
    except TypeError:
        raise _fault(KEY, "the key needs a passphrase, and nobody is there to type it: store it without one") from None
    except (ValueError, UnsupportedAlgorithm):
        raise _fault(KEY, "the file holds no private key in PEM") from None


def _content(variable: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no name of a file"
        raise _fault(variable, f"the file cannot be read: {reason}") from None


def _no_passphrase() -> str:
    raise _fault(KEY, "the key needs a passphrase, and nobody is there to type it: store it without one")


def _fault(variable: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"{variable}: {reason}", field=variable)
