"""Nonsense has no answer, and questions about the project's documentation have one: with the local model, by default.

`benchmarks/relevance/` has the questions, to which nothing was fitted.
"""

import os
import re

import pytest

from benchmarks.relevance.calibration import DOCUMENTATION, FOLDER, best_hits, documentation, own_questions, read_lines
from providers.embeddings.minilm import MiniLMProvider


@pytest.fixture(scope="module")
def model():
    with MiniLMProvider({}) as model:
        yield model


@pytest.mark.skipif(
    "RAG_SOAK_QUALITY" not in os.environ, reason="`make soak` measures it: it embeds the whole documentation"
)
def test_nonsense_has_no_answer_and_real_questions_have_one(model):
    questions = own_questions()
    hits = best_hits(questions, [documentation(model)], model)
    answered = [
        (text, home is not None)
        for (text, home), cosine, words_found in zip(questions, hits.cosines, hits.words_found, strict=True)
        if model.relevance(cosine, words_found) >= model.min_relevance
    ]
    real = [text for text, is_real in answered if is_real]
    nonsense = [text for text, is_real in answered if not is_real]
    assert len(real) >= 47
    assert nonsense == []


def test_no_question_was_fitted_to():
    held_out = {text for text, _ in own_questions()}
    assert len(held_out) == 100
    assert held_out.isdisjoint(text for text, _ in own_questions("-for-fitting"))


@pytest.mark.parametrize("name", ["answerable", "answerable-for-fitting"])
def test_the_sections_that_answer_are_there(name):
    for line in read_lines(FOLDER / f"{name}.jsonl"):
        text = (DOCUMENTATION.parent / line["file"]).read_text()
        assert re.search(rf"(?m)^#+ {re.escape(line['section'])}$", text), line
