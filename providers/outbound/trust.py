"""The certificates that are believed when another service is asked over TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from schemas.errors import ConfigurationError

MAX_WRAPPINGS = 20
"""The most errors around another that are looked through."""


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
    for _ in range(MAX_WRAPPINGS):
        wrapped = [error, *(each for each in error.args if isinstance(each, BaseException))]
        if any(isinstance(each, ssl.SSLCertVerificationError) for each in wrapped):
            return True
        cause = error.__cause__ or error.__context__
        if cause is None:
            return False
        error = cause
    return False
