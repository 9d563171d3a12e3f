"""A hostile text that is twice as long takes twice the steps; steps are counted, not timed."""

import re
import sys
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path

import pytest

from providers.embeddings.base import SupportsTokens
from registry.topics.topic import TopicByRule
from retrieval.chunking import (
    StructuredText,
    Syntax,
    markdown_blocks,
    opening_heading,
    split_sections,
    split_whole,
    split_windows,
)
from retrieval.chunking.markdown_blocks import MAX_MARKED_CHARACTERS
from retrieval.chunking.tokens import TokenCounter
from retrieval.parsing.markdown_comments import without_comments
from schemas.words.shadows import identifier_words
from schemas.words.splitting import split
from tests.support.regex_steps import Kinds, steps
from wrapper.catalog.words.splitting import query_terms

PRODUCT = Path(__file__).resolve().parents[2]
PACKAGES = ("schemas", "wrapper", "providers", "registry", "retrieval", "interfaces")
OPENINGS = ("", "---\ntitle: x", "title:", '"', "${a")
UNITS = (
    *' \t\n\r_"`*#>-|\\[<&~=.’。aA1é',
    *("${", "$", "}", "::", "->", ". ", '.")', "aB", "a_", "a."),
    *(" \n", "\n\n", "](", "- ", "> ", "a:\n", "---\n", "'a"),
)
COMPARED_WHOLE = {
    "registry.placeholders.addresses_in_values._DRIVER",
    "registry.placeholders.secret_hosts._RULE",
    "interfaces.commands.work.collection_files._FILE",
    "retrieval.documents.originals._ORIGINAL",
    "retrieval.ingest.walk._OF_TOOLS",
    "retrieval.parsing.notebooks._OBJECT",
    "retrieval.reading.not_read.SECRETS",
    "retrieval.parsing.office.drawings._FILE_NAME",
    "retrieval.parsing.parsed._NO_TITLE",
    "retrieval.parsing.pdf.pdf_pages._NO_TITLE",
    "retrieval.quoting._SOURCE_LINE",
    "schemas.names._PREFIX",
    "schemas.host_patterns._ORIGIN",
    "wrapper.indexing.engine_collections._IN_TRANSIT",
    "wrapper.querying.code_files.NAME",
    "wrapper.serving.gunicorn_worker._PATH",
}
"""Expressions that are only matched at the beginning of a text or against all of it, and never searched for."""


def product_patterns() -> dict[str, re.Pattern]:
    """Return every regular expression that a module of the product keeps."""
    found = {}
    for package in PACKAGES:
        for file in sorted((PRODUCT / package).rglob("*.py")):
            if "re.compile(" in file.read_text():
                name = ".".join(file.relative_to(PRODUCT).with_suffix("").parts)
                kept = vars(import_module(name)).items()
                found |= {f"{name}.{each}": value for each, value in kept if isinstance(value, re.Pattern)}
    return found


PATTERNS = product_patterns()


@pytest.mark.slow
@pytest.mark.parametrize("name", PATTERNS)
def test_no_regular_expression_of_the_product_takes_more_than_linear_steps(name):
    pattern = PATTERNS[name]
    counted = partial(steps, pattern, only_first=name in COMPARED_WHOLE)
    kinds = Kinds(pattern)
    different = {tuple(kinds.of(_text(pattern, each)) for each in texts): texts for texts in product(OPENINGS, UNITS)}
    for opening, unit in different.values():
        short, long = (counted(_text(pattern, opening + unit * times + "y")) for times in (16, 64))
        assert long < 6 * short, (opening, unit)


def test_the_step_counter_recognises_a_quadratic_expression_and_matches_as_re_does():
    quadratic = re.compile(r"^title[ \t]*:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
    short, long = (steps(quadratic, "title: x" + " " * times + "y") for times in (20, 80))
    assert long > 10 * short


def _text(pattern: re.Pattern, text: str) -> str | bytes:
    return text if isinstance(pattern.pattern, str) else text.encode()


class Words(SupportsTokens):
    """A tokenizer whose tokens are characters, so that the splitters' own steps are counted."""

    def count_tokens(self, text: str) -> int:
        return len(text)

    def token_starts(self, text: str) -> list[int]:
        return list(range(len(text)))


COUNTER = TokenCounter(Words())
READERS = {
    "title": lambda text: opening_heading(StructuredText(text)),
    "sections": lambda text: split_sections(text, max_tokens=40),
    "text": lambda text: split_sections(StructuredText(text, Syntax.TEXT), max_tokens=40),
    "whole": lambda text: split_whole(text, tokens=COUNTER, max_tokens=100),
    "windows": lambda text: split_windows(text, tokens=COUNTER, max_tokens=100, overlap_tokens=20),
    "code": lambda text: split_windows(
        StructuredText(text, Syntax.CODE), tokens=COUNTER, max_tokens=100, overlap_tokens=20
    ),
    "comments": without_comments,
    "shadow words": identifier_words,
    "query terms": query_terms,
    "words": split,
    "topic": lambda text: TopicByRule().next_topic("a b", text),
}
TEXTS = {
    "front matter that is never closed": lambda times: "---\ntitle: x" + " " * times + "y",
    "front matter of blanks": lambda times: "---\ntitle: x" + " " * times + "y\n---\n# A\n",
    "front matter of many lines": lambda times: "---\n" + "a: b\n" * times + "---\n",
    "quotes in quotes": lambda times: "> " * times + "a",
    "quoted lines": lambda times: ("> " * 30 + "a\n") + "b\n" * times,
    "lists in lists": lambda times: "- " * times + "a",
    "items": lambda times: "- a\n" * times,
    "empty headings": lambda times: "#\n" * times,
    "number signs": lambda times: "#" * times,
    "a long title": lambda times: "# " + "[" * times + "\n",
    "open comments": lambda times: "<!--" * times,
    "comments": lambda times: "`a` <!-- b --> {/* c */} ![d](e) <f> " * times,
    "open fences": lambda times: "~~~\n" + "    ```\n> ~~~~\n" * times,
    "attributes": lambda times: "# " + "{#a " * times + "}\n",
    "backticks": lambda times: "`" * times + " " + "a`` " * times,
    "brackets": lambda times: "[" * times + "](" * times,
    "references": lambda times: "[a]: b\n" * times,
    "open references": lambda times: "[a\n" * times,
    "a wide table": lambda times: "|" * times + "\n" + "|-" * times + "\n",
    "a long table": lambda times: "|a|b|\n|-|-|\n" + "|c\n" * times,
    "fences": lambda times: "```\na\n" * times,
    "an open fence": lambda times: "~~~\n" + "a\n" * times,
    "tags": lambda times: "<a" + " b=c" * times,
    "emphasis": lambda times: "*_a" * times,
    "a line": lambda times: "a" * 10 * times,
    "a line of capitals": lambda times: "A" * 10 * times,
    "blanks": lambda times: " " * 10 * times + "a",
    "underscores": lambda times: "a_" * times,
    "stops": lambda times: ". " * times,
}


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_reading_hostile_text_takes_linear_steps(reader):
    READERS[reader]("# warm\n")
    for name, text in TEXTS.items():
        short, long = (_calls(READERS[reader], text(times)) for times in (200, 800))
        assert long < 5.5 * short + 100, name


def _calls(read, text: str) -> int:
    """Count the calls of functions, in Python and in C."""
    count = 0

    def on_event(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        read(text)
    finally:
        sys.setprofile(before)
    return count


LABOURED = {
    "headings": "# A\n" * 400,
    "quotes in quotes, and lines that belong to the innermost": "> " * 20 + "a\n" + "b\n" * 50,
    "lists in quotes in lists": ("> - " * 10 + "a\n") * 50,
}


@pytest.mark.parametrize("text", LABOURED.values(), ids=LABOURED)
def test_markdown_that_takes_too_many_steps_is_split_as_plain_text_and_says_so(text, monkeypatch):
    monkeypatch.setattr(markdown_blocks, "MAX_STEPS", 5_000)
    document = StructuredText(text)
    assert document.tokens == []
    split = split_whole(document, tokens=COUNTER, max_tokens=100_000)
    assert {chunk.section for chunk in (*split.chunks, *split_sections(text), *READERS["windows"](text))} == {""}
    assert split.warnings == document.warnings
    assert document.warnings[0].startswith("The Markdown is too long or too deep to be read: its")


@pytest.mark.slow
def test_a_long_ordinary_document_is_read_as_markdown():
    text = "# A heading\n\n" + "A line of a paragraph,\nand one more.\n\n- an item\n\n" * 3_500
    document = StructuredText(text)
    assert (len(document.headings), document.warnings) == (1, [])


def test_the_markup_of_titles_is_read_until_their_total_length_reaches_its_bound():
    text = "".join(f"# *{'a' * 998}*\n" for _ in range(30))
    titles = [heading.title for heading in StructuredText(text).headings]
    assert ["*" in title for title in titles] == [False] * (MAX_MARKED_CHARACTERS // 1_000) + [True] * 10
