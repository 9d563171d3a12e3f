"""A hostile text takes twice the steps when it is twice as long: counted, not timed."""

from __future__ import annotations

import re
import sys
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path

import pytest

from registry.topic import TopicByRule
from retrieval.chunking import (
    Syntax,
    markdown_title,
    plain_text_warnings,
    split_markdown,
    split_text,
    split_whole,
    split_windows,
)
from retrieval.chunking.markdown import MAX_LINES
from retrieval.tokens import TokenCounter
from tests.support.regex_steps import steps
from wrapper.catalog.words import folded_words, identifier_words, query_terms

PRODUCT = Path(__file__).resolve().parents[2]
PACKAGES = ("schemas", "wrapper", "providers", "registry", "retrieval", "interfaces")
OPENINGS = ("", "---\ntitle: x", "title:", '"', "${a")
UNITS = (
    *' \t\n\r_"`*#>-|\\[<&~=.’。aA1é',
    *(
        "${",
        "$",
        "}",
        "::",
        "->",
        ". ",
        '.")',
        "aB",
        "a_",
        "a.",
        " \n",
        "\n\n",
        "](",
        "- ",
        "> ",
        "a:\n",
        "---\n",
        "'a",
    ),
)
COMPARED_WHOLE = {
    "registry.addresses_in_values._DRIVER",
    "registry.secret_hosts._RULE",
    "schemas.names._PREFIX",
    "schemas.origins._ORIGIN",
    "wrapper.engine_collections._IN_TRANSIT",
}
"""Asked whether a text begins with it, or is it as a whole; never looked for."""


def product_patterns() -> dict[str, re.Pattern]:
    """Every regular expression that a module of the product keeps."""
    found = {}
    for package in PACKAGES:
        for file in sorted((PRODUCT / package).rglob("*.py")):
            if "re.compile(" in file.read_text():
                name = ".".join(file.relative_to(PRODUCT).with_suffix("").parts)
                kept = vars(import_module(name)).items()
                found |= {f"{name}.{each}": value for each, value in kept if isinstance(value, re.Pattern)}
    return found


PATTERNS = product_patterns()


@pytest.mark.parametrize("name", PATTERNS)
def test_no_regular_expression_of_the_product_takes_more_than_linear_steps(name):
    pattern = PATTERNS[name]
    counted = partial(steps, pattern, only_first=name in COMPARED_WHOLE)
    for opening, unit in product(OPENINGS, UNITS):
        short, long = (counted(_text(pattern, opening + unit * times + "y")) for times in (16, 64))
        assert long < 6 * short, (opening, unit)


def test_the_step_counter_tells_a_quadratic_expression_and_matches_as_re_does():
    quadratic = re.compile(r"^title[ \t]*:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
    short, long = (steps(quadratic, "title: x" + " " * times + "y") for times in (20, 80))
    assert long > 10 * short


def _text(pattern: re.Pattern, text: str) -> str | bytes:
    return text if isinstance(pattern.pattern, str) else text.encode()


class Words:
    """A tokenizer whose tokens are characters, so that the splitters' own steps are counted."""

    def count_tokens(self, text: str) -> int:
        return len(text)

    def token_starts(self, text: str) -> list[int]:
        return list(range(len(text)))


COUNTER = TokenCounter(Words())
READERS = {
    "title": markdown_title,
    "sections": lambda text: split_markdown(text, max_tokens=40),
    "text": lambda text: split_text(text, max_tokens=40),
    "whole": lambda text: split_whole(text, tokens=COUNTER, max_tokens=100),
    "windows": lambda text: split_windows(text, tokens=COUNTER, max_tokens=100, overlap_tokens=20),
    "code": lambda text: split_windows(text, tokens=COUNTER, max_tokens=100, overlap_tokens=20, syntax=Syntax.CODE),
    "shadow words": identifier_words,
    "query terms": query_terms,
    "folded words": folded_words,
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


@pytest.mark.parametrize("reader", READERS)
def test_reading_hostile_text_takes_linear_steps(reader):
    READERS[reader]("# warm\n")
    for name, text in TEXTS.items():
        short, long = (_calls(READERS[reader], text(times)) for times in (200, 800))
        assert long < 5.5 * short + 100, name


def _calls(read, text: str) -> int:
    """How many functions are called, Python's and C's."""
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


def test_markdown_of_too_many_lines_is_split_as_plain_text_and_says_so():
    text = "# A\n" * MAX_LINES + "# A"
    split = split_whole(text, tokens=COUNTER, max_tokens=100_000)
    assert {chunk.section for chunk in (*split.chunks, *split_markdown(text), *READERS["windows"](text))} == {""}
    assert split.warnings[0] == plain_text_warnings(text)[0]
    assert split.warnings[0].startswith("The document has 50001 lines: Markdown of more than 50000")
    assert not plain_text_warnings("# A\n" * (MAX_LINES - 1))
