"""Certificates for tests, in files as an operator has them."""

import os
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.x509 import load_pem_x509_certificate


@dataclass(frozen=True)
class Pair:
    """The files of a certificate, of its key and of the authority that signed it."""

    cert: Path
    key: Path
    authority: Path

    @property
    def settings(self) -> dict[str, Path]:
        return {"tls_cert": self.cert, "tls_key": self.key}

    @property
    def serial(self) -> int:
        return load_pem_x509_certificate(self.cert.read_bytes()).serial_number


def write_pair(directory: Path, *names: str, authority: trustme.CA | None = None, **options: object) -> Pair:
    """Write a pair for these names, by default those of loopback; files that are there are replaced as a renewal does
    it, by renaming."""
    authority = authority or trustme.CA()
    issued = authority.issue_cert(*(names or ("localhost", "127.0.0.1", "::1")), **options)
    pair = Pair(directory / "cert.pem", directory / "key.pem", directory / "authority.pem")
    chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
    for path, content in (
        (pair.authority, authority.cert_pem.bytes()),
        (pair.cert, chain),
        (pair.key, issued.private_key_pem.bytes()),
    ):
        replace(path, content)
    return pair


def replace(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, path)
