"""What lies on the pages of a PDF: values of form fields, notes, attached files."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from retrieval.parsing.parsed import collapsed, listed
from retrieval.parsing.pdf.page_text import Word
from retrieval.parsing.table_text import TICKED, UNTICKED

MAX_ANNOTATIONS = 20_000
_HIDDEN = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
_PASSWORD = 1 << 13
_NO_NOTES = frozenset({pdfium.FPDF_ANNOT_LINK, pdfium.FPDF_ANNOT_WIDGET, pdfium.FPDF_ANNOT_POPUP})
_TICKS = frozenset({pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON})
_CHOICES = frozenset({pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX})


@dataclass(slots=True)
class Overlay:
    """What lies on a page: texts with their places, as parts of its lines, and notes that stand below them."""

    words: list[Word] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Annotations:
    """The annotations of a document, and by name what of them is not read."""

    def __init__(self, document: pypdfium2.PdfDocument) -> None:
        self._document = document
        self._form: Any = None
        self._unread: dict[str, list[str]] = {}
        self._left = MAX_ANNOTATIONS

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let the fields of forms have values. Must begin before a page is read."""
        config = pdfium.FPDF_FORMFILLINFO(version=2)
        if self._document.get_formtype() != pdfium.FORMTYPE_NONE:
            self._form = pdfium.FPDFDOC_InitFormFillEnvironment(self._document, config)
        try:
            yield
        finally:
            if self._form:
                pdfium.FPDFDOC_ExitFormFillEnvironment(self._form)

    def of(self, page: pypdfium2.PdfPage) -> Overlay:
        found = Overlay()
        count = pdfium.FPDFPage_GetAnnotCount(page)
        looked_at = min(count, self._left)
        self._left -= looked_at
        for index in range(looked_at):
            if annotation := pdfium.FPDFPage_GetAnnot(page, index):
                try:
                    self._add(annotation, found)
                finally:
                    pdfium.FPDFPage_CloseAnnot(annotation)
        return found

    def warnings(self) -> list[str]:
        """Return sentences about what was not read."""
        for index in range(min(pdfium.FPDFDoc_GetAttachmentCount(self._document), MAX_ANNOTATIONS)):
            self._skip("Attachments", _file_name(pdfium.FPDFDoc_GetAttachment(self._document, index)))
        said = [f"{kind} are left out: {listed(list(dict.fromkeys(names)))}" for kind, names in self._unread.items()]
        if (signed := pdfium.FPDF_GetSignatureCount(self._document)) > 0:
            said.append(f"Signatures are not read: {signed}")
        if self._document.get_formtype() == pdfium.FORMTYPE_XFA_FULL:
            said.append("This is a form in XFA, of which only what stands on its pages is read")
        if not self._left:
            said.append(f"Only the first {MAX_ANNOTATIONS:,} fields, options, links and notes of the pages are read")
        return said

    def _skip(self, kind: str, name: str) -> None:
        self._unread.setdefault(kind, []).append(name or "without a name")

    def _add(self, annotation: Any, found: Overlay) -> None:
        kind = pdfium.FPDFAnnot_GetSubtype(annotation)
        is_hidden = pdfium.FPDFAnnot_GetFlags(annotation) & _HIDDEN
        if kind == pdfium.FPDF_ANNOT_WIDGET and self._form:
            if value := self._value(annotation):
                if is_hidden:
                    self._skip("Hidden fields", self._text(pdfium.FPDFAnnot_GetFormFieldName, annotation))
                else:
                    found.words.append(_placed(annotation, value))
        elif kind == pdfium.FPDF_ANNOT_FILEATTACHMENT:
            self._skip("Attachments", _file_name(pdfium.FPDFAnnot_GetFileAttachment(annotation)))
        elif kind not in _NO_NOTES and not is_hidden and (text := _entry(annotation, b"Contents")):
            if kind == pdfium.FPDF_ANNOT_FREETEXT:
                found.words.append(_placed(annotation, text))
            else:
                author = collapsed(_entry(annotation, b"T"))
                found.notes.append(f"Note ({author}): {text}" if author else f"Note: {text}")

    def _value(self, annotation: Any) -> str:
        """Return what a field shows, "" for nothing."""
        kind = pdfium.FPDFAnnot_GetFormFieldType(self._form, annotation)
        if kind in _TICKS:
            state = _entry(annotation, b"AS") or self._text(pdfium.FPDFAnnot_GetFormFieldValue, annotation)
            return UNTICKED if state in ("", "Off") else TICKED
        if kind not in _CHOICES and kind != pdfium.FPDF_FORMFIELD_TEXTFIELD:
            return ""
        chosen = self._chosen(annotation) if kind in _CHOICES else ""
        value = chosen or self._text(pdfium.FPDFAnnot_GetFormFieldValue, annotation)
        if value and pdfium.FPDFAnnot_GetFormFieldFlags(self._form, annotation) & _PASSWORD and kind not in _CHOICES:
            self._skip("Passwords", self._text(pdfium.FPDFAnnot_GetFormFieldName, annotation))
            return ""
        return value

    def _chosen(self, annotation: Any) -> str:
        """Return the labels of the options that are selected."""
        count = min(max(pdfium.FPDFAnnot_GetOptionCount(self._form, annotation), 0), self._left)
        self._left -= count
        return ", ".join(
            self._text(pdfium.FPDFAnnot_GetOptionLabel, annotation, index)
            for index in range(count)
            if pdfium.FPDFAnnot_IsOptionSelected(self._form, annotation, index)
        )

    def _text(self, ask: Callable[..., int], annotation: Any, *which: int) -> str:
        return _read(lambda buffer, size: ask(self._form, annotation, *which, buffer, size))


def _placed(annotation: Any, text: str) -> Word:
    """Return a text as a word whose feet are at its first line."""
    rectangle = pdfium.FS_RECTF()
    pdfium.FPDFAnnot_GetRect(annotation, rectangle)
    low, high = sorted((rectangle.bottom, rectangle.top))
    return Word(f" {text} ", -1, -1, rectangle.left, rectangle.right, max(low + 3, high - 14))


def _entry(annotation: Any, name: bytes) -> str:
    return _read(lambda buffer, size: pdfium.FPDFAnnot_GetStringValue(annotation, name, buffer, size))


def _file_name(attachment: Any) -> str:
    if not attachment:
        return ""
    return collapsed(_read(lambda buffer, size: pdfium.FPDFAttachment_GetName(attachment, buffer, size)))


def _read(ask: Callable[[Any, int], int]) -> str:
    """Return a text that PDFium first gives the length of, in bytes of UTF-16 with a zero at the end."""
    size = ask(None, 0)
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    ask(buffer, size)
    text = ctypes.string_at(buffer, max(size - 2, 0)).decode("utf-16-le", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "").strip()
