"""Documents that are ZIP archives of XML: their members within bounds, and their XML without entities."""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any

from lxml import etree

from retrieval.parsing.markdown_text import tags_of
from retrieval.parsing.parsed import ENCRYPTED, TOO_LARGE, UnreadableError

MAX_MEMBERS = 20_000
MAX_BYTES = 512 * 1024 * 1024
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_FLAG = 0x1


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive whose members together are small enough. `label` is what a file of this kind is called in errors."""

    file: zipfile.ZipFile
    label: str

    @property
    def names(self) -> list[str]:
        return self.file.namelist()

    def has(self, name: str) -> bool:
        return name in self.file.NameToInfo

    def read(self, name: str) -> bytes:
        """Return a member. Raises UnreadableError when it is not there or is damaged."""
        try:
            return self.file.read(name)
        except KeyError as error:
            raise UnreadableError(f"is not {self.label}: a part of it is missing") from error
        except (
            zipfile.BadZipFile,
            zlib.error,
            NotImplementedError,  # zipfile's word for a compression that it does not know
            RuntimeError,
            OSError,
            EOFError,
            ValueError,
        ) as error:
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
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError, EOFError) as error:  # the second as above
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
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True, remove_comments=True
    )
    try:
        root = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        if isinstance(error, etree.XMLSyntaxError) and error.code == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError from error
        raise UnreadableError("contains XML that is not well formed") from error
    declared = root.getroottree().docinfo.internalDTD
    if declared is not None and any(True for _ in declared.iterentities()):
        raise UnreadableError("contains XML that declares entities")
    return root


def related(archive: Archive, part: str) -> dict[str, tuple[str, str]]:
    """Return the relations of a part of an Office document: id to (last word of the type, the target's name)."""
    place = PurePosixPath(part)
    name = f"{place.parent}/_rels/{place.name}.rels"
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


def core_properties(archive: Archive) -> dict[str, str]:
    """Return what an Office document says of itself: `title`, `creator`, `keywords`, `language`."""
    if not archive.has("docProps/core.xml"):
        return {}
    found = ((etree.QName(each).localname, each.text or "") for each in archive.xml("docProps/core.xml").iter("{*}*"))
    return {name: " ".join(value.split()) for name, value in found if value.strip()}


def metadata_of(properties: dict[str, str]) -> dict[str, Any]:
    """Return the metadata of a document from the core properties of its file."""
    metadata: dict[str, Any] = {"author": properties["creator"]} if "creator" in properties else {}
    if tags := tags_of(properties.get("keywords")):
        metadata["tags"] = tags
    language = properties.get("language", "").partition("-")[0].lower()
    if language.isascii() and language.isalpha() and len(language) in (2, 3):
        metadata["language"] = language
    return metadata
