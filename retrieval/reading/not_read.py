"""What is not read although people have it: kinds of files with what to do instead, and what may hold secrets."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

SECRET = "secret"
"""The code of a file that is left out because it may hold secrets."""
_INSTEAD = {
    "doc dot": "is a Word file of before 2007: save it as .docx",
    "xls xlt xlsb": "is an Excel file of another format: save it as .xlsx",
    "ppt pps pot": "is a PowerPoint file of before 2007: save it as .pptx",
    "rtf wpd wps pages": "is a text that cannot be read: save it as .docx or PDF",
    "numbers": "is a Numbers spreadsheet: export it as .xlsx",
    "key": "is a Keynote presentation, to be exported as .pptx, or a key, which is a secret",
    "fodt": "is a flat OpenDocument text: save it as .odt",
    "fods": "is a flat OpenDocument spreadsheet: save it as .ods",
    "fodp": "is a flat OpenDocument presentation: save it as .odp",
    "odg vsd vsdx pub one xps oxps ps eps djvu": "is a document that cannot be read: save it as PDF",
    "mobi azw azw3": "is an e-book that cannot be read: convert it to .epub",
    "mht mhtml webarchive": "is an archived web page: save it as .html",
    "msg": "is a mail of Outlook: save it as .eml",
    "pst ost": "is a mailbox of Outlook: export it as .mbox or its mails as .eml",
    "gdoc gsheet gslides": "is only a link to Google Drive: download it as .docx, .xlsx or .pptx",
    "tar gz tgz bz2 xz 7z rar": "is an archive that cannot be read: unpack it, or pack it as .zip",
}
INSTEAD = {f".{suffix}": sentence for suffixes, sentence in _INSTEAD.items() for suffix in suffixes.split()}
"""By suffix what a file is, and what to do with it; the sentence goes on after its name."""
SECRETS = re.compile(
    r"\.env|\.env\..*|.*\.env|id_(?:rsa|dsa|ecdsa|ed25519)|.*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk)"
    r"|\.netrc|\.pgpass|\.npmrc|\.pypirc|\.htpasswd|\.git-credentials|\.dockercfg|kubeconfig"
    r"|credentials|(?:credentials|secrets?)\.(?:json|ya?ml|toml|ini|cfg|conf|properties|csv|txt)"
    r"|(?:client_secret|service[-_]account).*\.json",
    re.IGNORECASE,
)
"""Names of files that usually hold passwords or keys."""


def instead_of(name: str) -> str | None:
    """Return what a file of a kind that is not read is, and what to do with it; None where that is not known."""
    return INSTEAD.get(PurePosixPath(name).suffix.lower())


def may_hold_secrets(name: str) -> bool:
    """Return whether a file is left out by the last part of its name, unless somebody names just this file."""
    return SECRETS.fullmatch(PurePosixPath(name).name) is not None
