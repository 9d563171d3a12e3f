"""Documents that are ZIP archives of XML: their members within bounds, and their XML without entities."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any

from lxml import etree

from retrieval.parsing.html_text import local_name
from retrieval.parsing.parsed import (
    DAMAGED_ARCHIVE,
    ENCRYPTED,
    TOO_LARGE,
    UnreadableError,
    collapsed,
    sensible_title,
    told,
)

MAX_MEMBERS = 20_000
MAX_BYTES = 512 * 1024 * 1024
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_FLAG = 0x1
_SAFELY: Any = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "huge_tree": True,
    "remove_comments": True,
}
_SHEETS = (
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    "http://purl.oclc.org/ooxml/spreadsheetml/main",
)


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive whose members together are small enough. `label` is what a file of this kind is called in errors."""

    file: zipfile.ZipFile
    label: str

    def has(self, name: str) -> bool:
        return name in self.file.NameToInfo

    def read(self, name: str) -> bytes:
        """Return a member. Raises UnreadableError when it is not there or is damaged."""
        if not self.has(name):
            raise UnreadableError(f"is not {self.label}: a part of it is missing")
        try:
            return self.file.read(name)
        except DAMAGED_ARCHIVE as error:
            raise UnreadableError("is a damaged archive") from error

    def xml(self, name: str) -> etree._Element:
        """Return the root of a member's XML. Raises UnreadableError when it is not well formed or declares entities."""
        return parse_xml(self.read(name))


def open_archive(content: bytes, label: str) -> Archive:
    """Open an archive. Raises UnreadableError when it is none, is encrypted, or is too large when unpacked."""
    if content.startswith(_OLE):
        if "EncryptedPackage".encode("utf-16-le") in content:
            raise UnreadableError("is encrypted", ENCRYPTED)
        raise UnreadableError("is an Office file of before 2007: save it in the present format")
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except DAMAGED_ARCHIVE as error:
        raise UnreadableError(f"is not {label}, or is damaged") from error
    members = archive.infolist()
    size = sum(member.file_size for member in members)
    if len(members) > MAX_MEMBERS or size > MAX_BYTES:
        raise UnreadableError(
            f"unpacks to {len(members):,} files of {size:,} bytes in all; "
            f"at most {MAX_MEMBERS:,} files of {MAX_BYTES:,} bytes in all are read",
            TOO_LARGE,
        )
    if any(member.flag_bits & _ENCRYPTED_FLAG for member in members):
        raise UnreadableError("is encrypted", ENCRYPTED)
    return Archive(archive, label)


def parse_xml(content: bytes) -> etree._Element:
    """Return the root of an XML document. Nothing is fetched, and a document that declares entities is refused.

    Raises UnreadableError, and MemoryError where there is not enough memory.
    """
    parser = etree.XMLParser(**_SAFELY)
    try:
        root = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise _ill_formed(error) from error
    _refuse_entities(root)
    return root


def streamed(archive: Archive, name: str, *tags: str) -> Iterator[etree._Element]:
    """Yield the elements of a spreadsheet's part that are called so, each as it ends; no other is kept in memory.

    Raises as `Archive.xml`.
    """
    wanted = [f"{{{namespace}}}{tag}" for namespace in _SHEETS for tag in tags]
    is_first = True
    try:
        with archive.file.open(name) as file:
            for _, element in etree.iterparse(file, tag=wanted, **_SAFELY):
                if is_first:
                    _refuse_entities(element)
                is_first = False
                yield element
                element.clear(keep_tail=False)
                above = element.getparent()
                while above is not None and above[0] is not element:
                    del above[0]
    except etree.XMLSyntaxError as error:
        raise _ill_formed(error) from error
    except DAMAGED_ARCHIVE as error:
        raise UnreadableError("is a damaged archive") from error


def _ill_formed(error: Exception) -> Exception:
    if isinstance(error, etree.XMLSyntaxError) and error.code == etree.ErrorTypes.ERR_NO_MEMORY:
        return MemoryError()
    if isinstance(error, etree.XMLSyntaxError) and error.code == etree.ErrorTypes.ERR_RESOURCE_LIMIT:
        return UnreadableError("is nested too deeply")
    return UnreadableError("contains XML that is not well formed")


def _refuse_entities(element: etree._Element) -> None:
    declared = element.getroottree().docinfo.internalDTD
    if declared is not None and any(True for _ in declared.iterentities()):
        raise UnreadableError("contains XML that declares entities")


def related(archive: Archive, part: str) -> dict[str, tuple[str, str]]:
    """Return the relations of a part of an Office document: id to (last word of the type, the target's name).

    Those of "" are the document's own.
    """
    place = PurePosixPath(part)
    name = normpath(f"{place.parent}/_rels/{place.name}.rels")
    if not archive.has(name):
        return {}
    found = {}
    for relation in archive.xml(name):
        if relation.get("TargetMode") == "External" or not isinstance(relation.tag, str):
            continue
        target = relation.get("Target", "")
        path = target.lstrip("/") if target.startswith("/") else normpath(str(place.parent / target))
        found[relation.get("Id", "")] = (relation.get("Type", "").rpartition("/")[2], path)
    return found


def attribute(element: etree._Element | None, name: str) -> str | None:
    """Return an attribute by its name alone: the two standards of Office documents have namespaces of their own."""
    if element is None:
        return None
    return next((value for key, value in element.items() if key.rpartition("}")[2] == name), None)


def is_on(element: etree._Element | None, name: str = "val") -> bool:
    """Return whether a switch is there, and not turned off."""
    return element is not None and attribute(element, name) not in ("0", "false", "off")


def whole_number(text: str | None, default: int = 0) -> int:
    """Return a number that is written in at most eight digits, else the default."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else default


def keep_choices(root: etree._Element) -> None:
    """Of all that is there twice, for programs of today and for older ones, keep the first."""
    for each in list(root.iter("{*}AlternateContent")):
        for other in each[1:]:
            each.remove(other)


def core_properties(archive: Archive) -> tuple[str | None, dict[str, Any]]:
    """Return the title and the metadata that an Office document has in its properties."""
    core = "docProps/core.xml"
    return described(archive.xml(core).iter("{*}*") if archive.has(core) else (), "keywords")


def described(elements: Iterable[etree._Element], tags: str) -> tuple[str | None, dict[str, Any]]:
    """Return the title, if it is one, and the metadata that elements of Dublin Core tell of a document, and those
    called `tags`."""
    found: dict[str | None, list[str]] = {}
    for each in elements:
        if text := collapsed(each.text or ""):
            found.setdefault(local_name(each), []).append(text)
    words, authors = found.get(tags, []), found.get("creator") or found.get("initial-creator", [])
    split = ",".join(words) if tags == "keywords" else words
    metadata = told(", ".join(authors), split, next(iter(found.get("language", ())), ""))
    return sensible_title(next(iter(found.get("title", ())), "")), metadata
