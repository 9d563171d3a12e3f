"""Front matter is metadata, and the lines below it stay where they are."""

from __future__ import annotations

import pytest

from retrieval.reading.front_matter import split_front_matter

YAML = """---
title: The plan
tags: backup, restore; nightly
author: Ada
lang: en-GB
date: 2024-05-01
weights: [1, .nan, 2.5]
nothing:
---
# Heading
"""


def test_yaml_becomes_metadata():
    front = split_front_matter(YAML)
    assert front.title == "The plan"
    assert front.metadata == {
        "tags": ["backup", "restore", "nightly"],
        "author": "Ada",
        "language": "en",
        "date": "2024-05-01",
        "weights": [1, None, 2.5],
    }
    assert front.warnings == ()


def test_toml_becomes_metadata():
    front = split_front_matter('+++\ntitle = "Plan"\ntags = ["a", "a", " b "]\ndate = 2024-05-01\n+++\nText\n')
    assert (front.title, front.metadata) == ("Plan", {"tags": ["a", "b"], "date": "2024-05-01"})


@pytest.mark.parametrize("text", [YAML, YAML.replace("\n", "\r\n"), YAML.removesuffix("# Heading\n")])
def test_no_line_moves(text):
    front = split_front_matter(text)
    assert len(front.text.splitlines()) == len(text.splitlines())
    assert front.text.strip() == text.splitlines()[-1].replace("---", "").strip()


@pytest.mark.parametrize(
    "text",
    [
        "# No front matter\n",
        "---\n\nA rule, then text\n\n---\n",
        "---\ntitle: never closed\n",
        "+++\nnever closed\n",
    ],
)
def test_other_texts_are_left_alone(text):
    assert split_front_matter(text) == type(split_front_matter(text))(text)


@pytest.mark.parametrize(
    "inside",
    [
        "title: [never closed",
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c]",
        "a: " + "[" * 1_200,
        "a: !!python/object/apply:os.system ['true']",
        "number: " + "9" * 5_000,
    ],
)
def test_front_matter_that_cannot_be_read_stays_text_with_a_warning(inside):
    text = f"---\n{inside}\n---\nText\n"
    front = split_front_matter(text)
    assert (front.text, front.metadata) == (text, {})
    assert len(front.warnings) == 1
