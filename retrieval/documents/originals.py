"""The files that documents were made of, kept in the data directory where the operator wants that.

An original lies at `<collection's id>/<document's id>-<SHA-256>`. The digest is that of the bytes the stored document
was made of, so an original can never be that of another version.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from schemas.storage.erasure import Target
from schemas.storage.synced_folders import sync_folder

_DOCUMENT_ID = re.compile(r"[0-9a-f-]{32,36}")
_COLLECTION_ID = re.compile(r"[0-9A-Za-z._-]{1,512}")
_ORIGINAL = re.compile(rf"({_DOCUMENT_ID.pattern})-([0-9a-f]{{64}})")


class Originals:
    """The originals in a folder; only with `keeps` are new ones kept. Usable by several processes."""

    def __init__(self, folder: Path, *, keeps: bool) -> None:
        self._folder = folder
        self._keeps = keeps

    def keep(self, file: Path, collection_id: str, document_id: str, sha256: str) -> None:
        """Keep a file as the original of a document, in place of the original of its earlier version.

        The file stays where it is, on the same disk: the original is another name of it. Without `keeps` only the
        earlier one is removed.
        """
        kept = self._path(collection_id, document_id, sha256)
        if not self._keeps or kept is None:
            self.forget(collection_id, document_id)
            return
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.link(file, kept)
        sync_folder(kept.parent)
        self.forget(collection_id, document_id, but=kept)

    def find(self, collection_id: str, document_id: str, sha256: object) -> Path | None:
        """Return where the original of a stored document lies, None when it is not kept."""
        path = self._path(collection_id, document_id, sha256)
        return path if path is not None and path.is_file() else None

    def forget(self, collection_id: str, document_id: str, but: Path | None = None) -> bool:
        """Remove the originals of a document, `but` one. Return whether there was any."""
        if not _COLLECTION_ID.fullmatch(collection_id) or not _DOCUMENT_ID.fullmatch(document_id):
            return False
        found = [each for each in (self._folder / collection_id).glob(f"{document_id}-*") if each != but]
        for each in found:
            each.unlink(missing_ok=True)
        return bool(found)

    def erase(self, target: Target) -> int:
        """Remove the originals of erased documents, also where only some of their chunks are erased.

        Return the number of documents that had one.
        """
        folder = target.collection_id or target.collection
        if folder is None:
            return 0
        return sum(self.forget(folder, document_id) for document_id in target.document_ids)

    def told_by(self, file: Path) -> tuple[str, str, str] | None:
        """Return the ids of collection and document and the digest that the path of an original tells; None for any
        other file."""
        named = _ORIGINAL.fullmatch(file.name)
        return None if named is None or file.parent.parent != self._folder else (file.parent.name, named[1], named[2])

    def sweep(self, stored_in: Callable[[str, str, str], str | None]) -> None:
        """Remove what is no original of a stored document: `stored_in` takes the ids and the digest."""
        if not self._folder.is_dir():
            return
        for collection in self._folder.iterdir():
            for file in collection.iterdir():
                told = self.told_by(file)
                if told is None or stored_in(*told) is None:
                    file.unlink(missing_ok=True)
            if not any(collection.iterdir()):
                shutil.rmtree(collection, ignore_errors=True)

    def _path(self, collection_id: str, document_id: str, sha256: object) -> Path | None:
        name = f"{document_id}-{sha256}"
        is_name = _COLLECTION_ID.fullmatch(collection_id) and _ORIGINAL.fullmatch(name)
        return self._folder / collection_id / name if is_name else None
