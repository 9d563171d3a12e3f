"""The files of a folder that become documents: the one walker, and the one set of rules for what is passed over."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from retrieval.ingest.identity import IS_REPEATED, REPEATED_NAME, repeated_names
from retrieval.ingest.regular_files import LINK, NOT_A_FILE
from retrieval.ingest.sources import SourceError, SourceFile, opened_below, unreadable
from retrieval.reading import UnreadableError, kind_of_file
from retrieval.reading.read_document import UNREADABLE, UNSUPPORTED_KIND
from schemas.errors import InvalidInputError, UnavailableError

HIDDEN, OF_TOOLS, BEIR = "hidden", "of_tools", "beir"
_OF_TOOLS = re.compile(
    r"node_modules|__pycache__|site-packages|.*~|.*\.(py[cod]|sw.)|.*\.___jb_\w+___|flycheck_.*|#.*#", re.DOTALL
)
"""Names of what package managers, compilers and editors leave behind; most of it is hidden anyway."""
_BEIR_CORPUS = "corpus.jsonl"
_BEIR_OTHERS = {"queries.jsonl", "qrels"}  # questions and judgements, not documents


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A file, or a folder (its path ends with `/`), that is not to be a document, which is no error. `code` is one of
    those of unreadable files, or `hidden`, `of_tools`, `link`, `not_a_file` or `beir`; `reason` continues a sentence
    after the path."""

    path: str
    code: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(slots=True)
class Found:
    """What is below a path: `folder` is the name of the folder, "" for the root of the file system, and `folders` are
    the paths of those that were listed, "" among them. An error with a path that ends with `/` is of a folder that
    could not be listed."""

    folder: str
    files: list[SourceFile] = field(default_factory=list)
    passed_over: list[PassedOver] = field(default_factory=list)
    errors: list[SourceError] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


def walk(path: Path, *, follow_links: bool = False) -> Found:
    """Return the files at `path`, a file or a folder, sorted by name, and what is passed over.

    Passed over are hidden files and folders, what tools leave behind, files of no known kind, and BEIR's queries and
    judgements. Symbolic links are unless `follow_links`, because they may lead out of the folder. Of files whose names
    are one name, composed and decomposed, the first is found and the others are errors. Raises InvalidInputError when
    there is no such file or folder, or the file cannot become a document, and UnavailableError when the folder cannot
    be listed, or is another one at the end than at the beginning, as when it is mounted meanwhile.
    """
    if path.is_file():
        found = Found(path.resolve().parent.name)
        _add(path, path.name, True, found)
        for reason in (*(each.reason for each in found.passed_over), *(each.message for each in found.errors)):
            raise InvalidInputError(f"'{path}' {reason}")
        return found
    if not path.is_dir():
        raise InvalidInputError(f"'{path}' {'is neither a file nor a folder' if path.exists() else 'does not exist'}")
    found = Found(path.resolve().name)
    try:
        before = os.stat(path)
        _list(path, "", follow_links, frozenset(), found)
        after = os.stat(path)
    except OSError as error:
        raise UnavailableError(f"The folder '{path}' cannot be listed: {error.strerror}") from error
    if not os.path.samestat(before, after):
        raise UnavailableError(f"The folder '{path}' was replaced by another")
    repeated = repeated_names(file.path_below for file in found.files)
    found.errors += [SourceError(each, None, IS_REPEATED, REPEATED_NAME) for each in sorted(repeated)]
    found.files = [file for file in found.files if file.path_below not in repeated]
    return found


def is_ignored(name: str) -> bool:
    """Return whether a file or folder is passed over by its name alone, whatever it is."""
    return name.startswith(".") or _OF_TOOLS.fullmatch(name) is not None


def _list(folder: Path, below: str, follow_links: bool, above: frozenset[Path], found: Found) -> None:
    """Add what is below a folder. `above` are the real paths of its parents: a link back to one is a loop."""
    place = folder.resolve()
    if place in above:
        found.passed_over.append(PassedOver(below, LINK, "is a symbolic link to a folder above"))
        return
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    except OSError as error:
        if not below:
            raise
        found.errors.append(SourceError(below, None, f"cannot be listed: {error.strerror}", UNREADABLE))
        return
    found.folders.append(below)
    has_corpus = (folder / _BEIR_CORPUS).is_file()
    for entry in entries:
        is_folder = entry.is_dir() and (follow_links or not entry.is_symlink())
        path = _shown(f"{below}{entry.name}{'/' if is_folder else ''}")
        if _shown(entry.name) != entry.name:
            found.errors.append(SourceError(path, None, "has a name that is not UTF-8", UNREADABLE))
        elif entry.name.startswith("."):
            found.passed_over.append(PassedOver(path, HIDDEN, "is hidden"))
        elif _OF_TOOLS.fullmatch(entry.name):
            found.passed_over.append(PassedOver(path, OF_TOOLS, "is of a package manager, a compiler or an editor"))
        elif has_corpus and entry.name in _BEIR_OTHERS:
            found.passed_over.append(PassedOver(path, BEIR, "holds questions and judgements of BEIR, not documents"))
        elif not entry.is_file() and not entry.is_dir():
            found.passed_over.append(PassedOver(path, NOT_A_FILE, "is not a file"))
        elif entry.is_symlink() and not follow_links:
            found.passed_over.append(PassedOver(path, LINK, "is a symbolic link (--follow-links follows it)"))
        elif is_folder:
            _list(entry, path, follow_links, above | {place}, found)
        else:
            _add(entry, path, follow_links, found)


def _shown(name: str) -> str:
    return name.encode(errors="replace").decode()


def _add(path: Path, path_below: str, follows_links: bool, found: Found) -> None:
    try:
        kind = kind_of_file(path.name, partial(opened_below, path, path_below, follows_links))
        with unreadable():
            stat = os.stat(path)
    except UnreadableError as error:
        if error.code in (UNSUPPORTED_KIND, LINK, NOT_A_FILE):
            found.passed_over.append(PassedOver(path_below, error.code, error.message))
        else:
            found.errors.append(SourceError(path_below, None, error.message, error.code))
    else:
        signature = (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        found.files.append(SourceFile(path, path_below, kind, stat.st_size, follows_links, signature))
