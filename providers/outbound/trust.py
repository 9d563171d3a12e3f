"""The certificates that are believed when another service is asked over TLS."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import requests

from schemas.errors import ConfigurationError

MAX_WRAPPINGS = 20
"""The most errors around another that are looked through."""
_CUT = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
_BROKEN = ("INTERNAL_ERROR", "BAD_RECORD_MAC")
"""How the reasons end for which TLS breaks off between two sides that understand each other."""


@dataclass(frozen=True, slots=True)
class Trust:
    """A PEM file with all that is believed, and `variable`, the setting that named it.

    The file holds authorities, or with `is_own` a service's own certificate, which is then believed whatever name the
    service is called by: who reads the file of a service of this machine knows which one it is.
    """

    file: str
    variable: str = "RAG_CA_FILE"
    is_own: bool = False

    def context(self) -> ssl.SSLContext:
        """Return a client's context. Raises ConfigurationError when the file cannot be read or holds no certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.is_own:
            context.check_hostname = False
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(cafile=self.file)
        except OSError as error:  # ssl's own errors are among these
            reason = "it holds no certificate in PEM" if isinstance(error, ssl.SSLError) else error.strerror
            sentence = f"{self.variable}: the file cannot be used: {reason}"
            raise ConfigurationError(sentence, field=self.variable) from None
        return context


def is_distrust(error: BaseException) -> bool:
    """Return whether a failure is that a certificate is not trusted; libraries wrap that in errors of their own."""
    return any(isinstance(each, ssl.SSLCertVerificationError) for each in wrapped(error))


def tls_fault(error: requests.RequestException) -> str | None:
    """Return what is wrong with a service's TLS until an operator changes it, None for another failure: a connection
    that is cut looks like one of TLS, too."""
    if not isinstance(error, requests.exceptions.SSLError):
        return None
    if is_distrust(error):
        return "has a TLS certificate that is not trusted, unless RAG_CA_FILE names its authority"
    failed = [each for each in wrapped(error) if isinstance(each, ssl.SSLError)]
    if failed and all(isinstance(each, _CUT) or str(each.reason).endswith(_BROKEN) for each in failed):
        return None
    return "does not speak TLS, or in no version that is spoken here"


def wrapped(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that it wraps, in its arguments or as its cause."""
    inner: BaseException | None = error
    for _ in range(MAX_WRAPPINGS):
        if inner is None:
            return
        yield from (inner, *(each for each in inner.args if isinstance(each, BaseException)))
        inner = inner.__cause__ or inner.__context__
