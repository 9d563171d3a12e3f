"""The files that pages load: Bootstrap's styles, and the console's own styles and scripts.

All are read once. Each is served under a path that names its content, so browsers keep it, and compressed where the
browser takes that.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cache
from importlib.resources import files
from pathlib import Path

from flask import Request, Response

from schemas.errors import NotFoundError

OWN = Path(__file__).parent / "static"
BOOTSTRAP = "bootstrap.css"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
KEPT_SECONDS = 365 * 86_400
VERSION_CHARACTERS = 12
SMALLEST_COMPRESSED = 1_000

_OF_DARK_MODE = re.compile(r"\[data-bs-theme=dark\]([^{},]*)\{([^{}]*)\}")


class Assets:
    """The files by name. The version of all of them is part of their paths, because scripts import each other by
    relative names."""

    def __init__(self) -> None:
        self._files = {path.name: path.read_bytes() for path in sorted(OWN.iterdir()) if path.suffix in TYPES}
        self._files[BOOTSTRAP] = _bootstrap().encode()
        parts = (name.encode() + b"\0" + content for name, content in self._files.items())
        self.version = hashlib.sha256(b"".join(parts)).hexdigest()[:VERSION_CHARACTERS]
        self._compressed = cache(lambda name: gzip.compress(self._files[name], mtime=0))

    def response(self, name: str, request: Request) -> Response:
        """Return a file. Raises NotFoundError when there is none of that name."""
        content = self._files.get(name)
        if content is None:
            raise NotFoundError(f"No such file: {name}", code="file_not_found", allowed=sorted(self._files))
        compresses = len(content) >= SMALLEST_COMPRESSED and "gzip" in request.accept_encodings
        response = Response(self._compressed(name) if compresses else content, mimetype=TYPES[Path(name).suffix])
        if compresses:
            response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
        response.headers["Cache-Control"] = f"public, max-age={KEPT_SECONDS}, immutable"
        return response


def _bootstrap() -> str:
    """Return Bootstrap's styles, dark where the reader's system is: as they are, that takes a script."""
    styles = (files("flask_bootstrap") / "static" / "bootstrap5" / "css" / "bootstrap.min.css").read_text()
    return _OF_DARK_MODE.sub(r"@media (prefers-color-scheme:dark){:root\1{\2}}", styles)
