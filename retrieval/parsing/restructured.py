"""reStructuredText, read by docutils and written as Markdown. What docutils does not know keeps its text."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.core import publish_parts
from docutils.parsers.rst import Directive, directives, roles

from retrieval.parsing.html_pages import seen_blocks
from retrieval.parsing.parsed import MarkdownText, Parsed
from retrieval.parsing.text_encodings import decoded

_SETTINGS = {
    "file_insertion_enabled": False,  # no `include`, no `csv-table` of a file or an address
    "raw_enabled": False,
    "_disable_config": True,
    "report_level": 5,
    "halt_level": 5,
    "warning_stream": None,
    "doctitle_xform": False,
    "sectsubtitle_xform": False,
    "input_encoding": "unicode",
    "embed_stylesheet": False,
    "syntax_highlight": "none",
    "math_output": "LaTeX",
    "image_loading": "link",
    "initial_header_level": 1,
    "line_length_limit": 1_000_000,
}
_LISTS_OF_PAGES = frozenset(("toctree", "index", "contents", "highlight", "currentmodule", "py:currentmodule"))


class _UnknownDirective(Directive):
    """A directive of Sphinx or another tool: its argument and its content stay, its options do not."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        if self.name in _LISTS_OF_PAGES:
            return []
        found: list[nodes.Node] = [nodes.paragraph("", argument) for argument in self.arguments]
        if self.name in ("code", "sourcecode", "doctest", "testcode"):
            return [nodes.literal_block("", "\n".join(self.content))]
        container = nodes.container()
        lines = [line for line in self.content if not re.match(r":[\w-]+:(?:\s|$)", line)] if self.content else []
        if lines:
            self.state.nested_parse(self.content, self.content_offset, container)
        return [*found, container]


def _unknown_role(name: str, rawtext: str, text: str, lineno: int, inliner: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
    title, opened, target = text.rpartition("<")
    has_target = bool(opened) and target.find(">") == len(target) - 1
    return [nodes.literal(rawtext, (title.rstrip() if has_target else text).lstrip("~!"))], []


def _directive(name: str, language: Any, document: Any) -> tuple[Any, list[Any]]:
    found, messages = _known_directive(name, language, document)
    return (found, messages) if found else (_UnknownDirective, [])


def _role(name: str, language: Any, line: int, reporter: Any) -> tuple[Any, list[Any]]:
    found, messages = _known_role(name, language, line, reporter)
    return (found, messages) if found else (_unknown_role, [])


_known_directive, _known_role = directives.directive, roles.role


def _page(text: str) -> str:
    page: str = publish_parts(text, writer="html5", settings_overrides=_SETTINGS)["html_body"]
    return page


# docutils imports its parts, and reads a table of the system, when it meets what needs them; a confined process cannot.
_page(
    ".. image:: a.png\n\n.. note:: a\n\n.. csv-table:: a\n\n   a,b\n\n.. contents::\n\n.. unknown::\n\n"
    "A ``b`` :math:`c` d_ [1]_\n"
)


def parse(content: bytes) -> Parsed:
    """Return the text of a file."""
    text = decoded(content)
    directives.directive, roles.role = _directive, _role  # the one way to catch every unknown name
    document = MarkdownText()
    document.add(*seen_blocks(_page(text))[0])
    return document.parsed()
