"""The files of a folder that become documents: the one walker, and the one set of rules for what is passed over."""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from retrieval.ingest.identity import repeated_names
from retrieval.ingest.zip_members import LEFT_OUT, opened_archive
from retrieval.reading import (
    SECRET,
    UNREADABLE,
    UNSUPPORTED_KIND,
    Kind,
    UnreadableError,
    kind_of_file,
    may_hold_secrets,
)
from schemas.errors import InvalidInputError, UnavailableError

LINK, NOT_A_FILE = "link", "not_a_file"
HIDDEN, OF_TOOLS, BEIR, REPEATED_NAME = "hidden", "of_tools", "beir", "repeated_name"
_OF_TOOLS = re.compile(
    r"node_modules|__pycache__|site-packages|package-lock\.json"
    r"|.*~|.*\.(py[cod]|sw.)|.*\.___jb_\w+___|flycheck_.*|#.*#",
    re.DOTALL,
)
"""Names of what package managers, compilers and editors leave behind; most of it is hidden anyway."""
_BEIR_CORPUS = "corpus.jsonl"
_BEIR_OTHERS = {"queries.jsonl", "qrels"}  # questions and judgements, not documents
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # opening a pipe would otherwise wait for a writer
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a folder, or a `member` of an archive there. path_below: its path below that folder, with `/`; a single
    file's is its name, and a member's is the archive's followed by its name in it.

    Links on that path are followed only with `follows_links`, even those that took its place after it was found. A file
    whose `signature` (inode, size, times of the last change in nanoseconds) differs from before may have changed.
    """

    path: Path
    path_below: str
    kind: Kind
    size_bytes: int
    follows_links: bool = False
    signature: tuple[int, ...] = ()
    member: str = ""

    def open(self) -> BinaryIO:
        """Open the file. Raises UnreadableError when it cannot be opened, or is no regular file any more."""
        if not self.member:
            return open_below(self.path, self.path_below, self.follows_links)
        with self._open_archive() as opened, opened_archive(opened) as archive:
            return archive.open(self.member)

    def _open_archive(self) -> BinaryIO:
        return open_below(self.path, self.path_below.removesuffix(f"/{self.member}"), self.follows_links)


@dataclass(frozen=True, slots=True)
class NotTaken:
    """A file, or a folder (its path ends with `/`), that is passed over or cannot be read. `code` is one of those of
    unreadable files, or `hidden`, `secret`, `of_tools`, `link`, `not_a_file`, `beir` or `repeated_name`; `message`
    continues a sentence after the path."""

    path: str
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(slots=True)
class Found:
    """What is below a path: `folder` is the name of the folder, "" for the root of the file system, and `folders` are
    the paths of those that were listed, "" among them. What is `passed_over` is not to be a document, which is no
    error; an error of a folder is that it could not be listed."""

    folder: str
    files: list[SourceFile] = field(default_factory=list)
    passed_over: list[NotTaken] = field(default_factory=list)
    errors: list[NotTaken] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


def walk(path: Path, *, follow_links: bool = False) -> Found:
    """Return the files at `path`, a file or a folder, sorted by name, and what is passed over.

    Passed over are hidden files and folders, what may hold secrets (told first), what tools leave behind, files of no
    known kind, and BEIR's queries and judgements; a file at `path` itself is found whatever its name is. For an archive
    there are its members. Symbolic links are passed over unless `follow_links`, because they may lead out of the
    folder. Of files whose names are one name, composed and decomposed, the first is found and the others are errors.
    Raises InvalidInputError when there is no such file or folder, or the file cannot become a document, and
    UnavailableError when the folder cannot be listed, or is another one at the end than at the beginning, as when it is
    mounted meanwhile.
    """
    if path.is_file():
        found = Found(path.resolve().parent.name)
        _add(path, path.name, True, found)
        for each in () if found.files else (*found.passed_over, *found.errors):
            raise InvalidInputError(f"'{path}' {each.message}")
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
    found.passed_over.sort(key=lambda each: each.code != SECRET)
    repeated = repeated_names(file.path_below for file in found.files)
    sentence = "has the name of another file, written in another way: only that one is taken"
    found.errors += [NotTaken(each, REPEATED_NAME, sentence) for each in sorted(repeated)]
    found.files = [file for file in found.files if file.path_below not in repeated]
    return found


def is_utf8(name: str) -> bool:
    """Return whether the bytes of a file's name are UTF-8: those of others are half surrogate pairs in Python."""
    return _shown(name) == name


def is_ignored(name: str) -> bool:
    """Return whether a file or folder is passed over by its name alone, whatever it is."""
    return name.startswith(".") or _OF_TOOLS.fullmatch(name) is not None


def _list(folder: Path, below: str, follow_links: bool, above: frozenset[Path], found: Found) -> None:
    """Add what is below a folder. `above` are the real paths of its parents: a link back to one is a loop."""
    place = folder.resolve()
    if place in above:
        found.passed_over.append(NotTaken(below, LINK, "is a symbolic link to a folder above"))
        return
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    except OSError as error:
        if not below:
            raise
        found.errors.append(NotTaken(below, UNREADABLE, f"cannot be listed: {error.strerror}"))
        return
    found.folders.append(below)
    has_corpus = (folder / _BEIR_CORPUS).is_file()
    for entry in entries:
        is_folder = entry.is_dir() and (follow_links or not entry.is_symlink())
        path = _shown(f"{below}{entry.name}{'/' if is_folder else ''}")
        if not is_utf8(entry.name):
            found.errors.append(NotTaken(path, UNREADABLE, "has a name that is not UTF-8"))
        elif not is_folder and may_hold_secrets(entry.name):
            found.passed_over.append(NotTaken(path, SECRET, f"{LEFT_OUT} (naming the file itself loads it)"))
        elif entry.name.startswith("."):
            found.passed_over.append(NotTaken(path, HIDDEN, "is hidden"))
        elif _OF_TOOLS.fullmatch(entry.name):
            found.passed_over.append(NotTaken(path, OF_TOOLS, "is of a package manager, a compiler or an editor"))
        elif has_corpus and entry.name in _BEIR_OTHERS:
            found.passed_over.append(NotTaken(path, BEIR, "holds questions and judgements of BEIR, not documents"))
        elif not entry.is_file() and not entry.is_dir():
            found.passed_over.append(NotTaken(path, NOT_A_FILE, "is not a file"))
        elif entry.is_symlink() and not follow_links:
            found.passed_over.append(NotTaken(path, LINK, "is a symbolic link (--follow-links follows it)"))
        elif is_folder:
            _list(entry, path, follow_links, above | {place}, found)
        else:
            _add(entry, path, follow_links, found)


def _shown(name: str) -> str:
    return name.encode(errors="replace").decode()


def _add(path: Path, path_below: str, follows_links: bool, found: Found) -> None:
    try:
        kind = kind_of_file(path.name, lambda: open_below(path, path_below, follows_links))
        told = os.stat(path)
    except (UnreadableError, OSError) as error:
        why = error if isinstance(error, UnreadableError) else _unreadable(error)
        is_passed_over = why.code in (UNSUPPORTED_KIND, LINK, NOT_A_FILE)
        (found.passed_over if is_passed_over else found.errors).append(NotTaken(path_below, why.code, why.message))
    else:
        signature = (told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns)
        file = SourceFile(path, path_below, kind, told.st_size, follows_links, signature)
        if kind.is_archive:
            _add_members(file, found)
        else:
            found.files.append(file)


def _add_members(file: SourceFile, found: Found) -> None:
    """Add the members of an archive. One that cannot be read is like a folder that cannot be listed."""
    try:
        with file.open() as opened, opened_archive(opened) as archive:
            members = list(archive.members())
    except UnreadableError as error:
        found.errors.append(NotTaken(f"{file.path_below}/", error.code, error.message))
        return
    for each in members:
        path_below = f"{file.path_below}/{each.name}"
        if each.kind is not None:
            kind, size_bytes = each.kind, each.size_bytes
            found.files.append(replace(file, path_below=path_below, kind=kind, size_bytes=size_bytes, member=each.name))
        else:
            is_passed_over = each.code in (UNSUPPORTED_KIND, SECRET)
            refused = found.passed_over if is_passed_over else found.errors
            refused.append(NotTaken(path_below, each.code, each.message))


def open_below(path: Path, path_below: str, follows_links: bool = False) -> BinaryIO:
    """Open a regular file by its path below a folder, with `/`. Others may exchange it at any time: no link leads
    elsewhere unnoticed, and no pipe is waited for.

    Raises UnreadableError when that fails (LINK, unless `follows_links`, for a link on the path below; NOT_A_FILE).
    """
    try:
        root = path.parents[path_below.count("/")]
        descriptor = os.open(path, _FILE) if follows_links else _open_without_links(root, path_below)
    except OSError as error:
        raise _unreadable(error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnreadableError("is not a file", code=NOT_A_FILE)
    return os.fdopen(descriptor, "rb")


def _open_without_links(root: Path, path_below: str) -> int:
    """Open one part of the path after the other, as what was checked beforehand may be something else by then."""
    *folders, name = path_below.split("/")
    with ExitStack() as opened:
        place = os.open(root, _FOLDER)
        for folder in folders:
            opened.callback(os.close, place)
            place = os.open(folder, _FOLDER | os.O_NOFOLLOW, dir_fd=place)
        opened.callback(os.close, place)
        return os.open(name, _FILE | os.O_NOFOLLOW, dir_fd=place)


def _unreadable(error: OSError) -> UnreadableError:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return UnreadableError("is a symbolic link, or behind one or another file now", code=LINK)
    return UnreadableError(f"cannot be read: {error.strerror}")
