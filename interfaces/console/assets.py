"""The files that pages load: Bootstrap's styles, and the console's own styles and scripts.

All are read once. Each is served under a path that names its content, so browsers keep it, and compressed where the
browser takes that.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
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


@dataclass(frozen=True)
class Asset:
    content: bytes
    media_type: str

    @cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.content, mtime=0)


class Assets:
    """The files by name. The version of all of them is part of their paths, because scripts import each other by
    relative names."""

    def __init__(self) -> None:
        self._files = {BOOTSTRAP: Asset(_bootstrap().encode(), TYPES[".css"])}
        for path in sorted(OWN.iterdir()):
            if path.suffix in TYPES:
                self._files[path.name] = Asset(path.read_bytes(), TYPES[path.suffix])
        digest = hashlib.sha256()
        for name, asset in self._files.items():
            digest.update(name.encode() + b"\0" + asset.content)
        self.version = digest.hexdigest()[:VERSION_CHARACTERS]

    def response(self, name: str, request: Request) -> Response:
        """Return a file. Raises NotFoundError when there is none of that name."""
        asset = self._files.get(name)
        if asset is None:
            raise NotFoundError(f"No such file: {name}", code="file_not_found", allowed=sorted(self._files))
        compresses = len(asset.content) >= SMALLEST_COMPRESSED and "gzip" in request.accept_encodings
        response = Response(asset.compressed if compresses else asset.content, mimetype=asset.media_type)
        if compresses:
            response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
        response.headers["Cache-Control"] = f"public, max-age={KEPT_SECONDS}, immutable"
        return response


def _bootstrap() -> str:
    """Return Bootstrap's styles, dark where the reader's system is: as they are, that takes a script."""
    spec = find_spec("flask_bootstrap")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("The package bootstrap-flask is not installed")
    styles = (Path(spec.origin).parent / "static" / "bootstrap5" / "css" / "bootstrap.min.css").read_text()
    return _OF_DARK_MODE.sub(r"@media (prefers-color-scheme:dark){:root\1{\2}}", styles)
