"""Which of a question's words were found, and the relevance of what was found."""

import math

import pytest

from providers.calibration import calibration_of
from retrieval.search.relevance import (
    CANDIDATES,
    COMMON_WORD,
    TOGETHER,
    AllWords,
    WordsFound,
    share_of_words,
    with_relevance,
)
from schemas.contracts.search import OracleResult


class Asked:
    """A question that was embedded by a calibrated model, which embeds nothing."""

    def __init__(self, is_readable=True):
        self.connection = self
        self.is_readable = is_readable

    def relevance(self, cosine, words_found=1.0):
        return calibration_of("all-MiniLM-L6-v2").relevance(cosine, words_found)


def asked(**how):
    return {"c": Asked(**how)}


def found(text, cosine, **metadata):
    return OracleResult("doc", "c", text, text, 0.5, metadata, cosine=cosine)


TEXTS = ["Backups run every night.", "The service listens on a port.", "Restore a backup on another machine."]


def all_of(*rarities):
    """The share of words with these rarities that were all found, together."""
    return sum(rarities) / (sum(rarities) + COMMON_WORD)


ONE_OF_THREE = math.log(1 + 2.5 / 1.5)
TWO_OF_THREE = math.log(1 + 1.5 / 2.5)


@pytest.mark.parametrize(
    ("question", "share"),
    [
        ("backups", all_of(TWO_OF_THREE)),
        ("Where do they RUN?", all_of(ONE_OF_THREE)),
        ("What is it?", 0.0),
        ("", 0.0),
        ("tractor", 0.0),
        ("Traktor, Öl?", 0.0),
    ],
)
def test_the_share_of_words(question, share):
    assert share_of_words(question, TEXTS) == pytest.approx(share)


def test_forms_of_a_word_are_one_word_and_a_part_of_one_is_none_but_for_scripts_without_spaces():
    assert share_of_words("listening", TEXTS) == share_of_words("listens", TEXTS) > 0
    assert share_of_words("restored", TEXTS) == share_of_words("restore", TEXTS) > 0
    assert share_of_words("port", ["transport"]) == 0.0
    assert share_of_words("port", ["transport by port"]) > 0.0
    assert share_of_words("port", ["the_port"]) > 0.0
    texts = ["数据库每天晚上备份", "日本"]
    assert 0.0 < share_of_words("备份餐馆", texts) < share_of_words("备份", texts)
    assert share_of_words("餐馆", texts) == 0.0
    assert share_of_words("本", texts) > 0.0


def test_the_rarer_a_word_the_more_it_counts_and_words_of_one_text_more_than_words_of_several():
    rare, frequent = share_of_words("rare zebra", ["rare", "x", "x"]), share_of_words("x zebra", ["rare", "x", "x"])
    assert 0.0 < frequent < rare < 0.5, "a word that no text has is the rarest"
    everywhere, rare = share_of_words("x", ["x"] * CANDIDATES), share_of_words("x", ["x", *["y"] * (CANDIDATES - 1)])
    assert everywhere < 0.1 < 0.7 < rare
    together, apart = (
        share_of_words("alpha omega", [*texts, *["nothing"] * 10]) for texts in (["alpha omega"], ["alpha", "omega"])
    )
    assert apart < together
    below = ["nothing"] * TOGETHER
    assert share_of_words("alpha omega", [*below, "alpha omega"]) < share_of_words(
        "alpha omega", ["alpha omega", *below]
    )
    words = WordsFound("striped zebra", ["a striped zebra", "a zebra", *["nothing"] * (CANDIDATES - 2)])
    shares = [words.share_with(text) for text in ("nothing", "a zebra", "a striped zebra")]
    assert shares == sorted(set(shares))
    assert shares[0] == pytest.approx(words.share / 2)
    assert shares[2] == pytest.approx(words.share)


@pytest.mark.parametrize(
    ("question", "has_all"),
    [
        ("backup", True),
        ("the nightly backup", False),
        ("a backup of the machine", True),
        ("Where is the backup?", False),
        ("What is machine?", True),
        ("How do I make a backup?", False),
        ("where", False),
    ],
)
def test_all_words_of_a_question_are_there(question, has_all):
    assert AllWords(question).are_in(TEXTS[2]) is has_all


def test_relevance_goes_by_the_nearest_texts_with_their_headings():
    [one] = with_relevance([found("It runs every night.", 0.3, title="Backups")], "backups", asked())
    [other] = with_relevance([found("It runs every night.", 0.3)], "backups", asked())
    assert one.relevance > other.relevance
    far = [found("nothing", 0.2) for _ in range(CANDIDATES)]
    near, beyond = found("zebra", 0.3), found("zebra", 0.1)
    with_it = with_relevance([near, *far], "zebra", asked())[0].relevance
    without = with_relevance([found("nothing", 0.3), *far[1:], beyond], "zebra", asked())[0].relevance
    assert with_it > without
    results = [found(text, cosine) for text, cosine in zip(TEXTS, (0.5, 0.3, 0.1), strict=True)]
    relevances = [each.relevance for each in with_relevance(results, "When do backups run?", asked())]
    assert relevances == sorted(relevances, reverse=True)
    assert relevances[0] > 0.9 > 0.5 > relevances[2]


def test_what_cannot_be_compared_is_not_relevant():
    assert [each.relevance for each in with_relevance([found("🎉", 1.0)], "🎉", asked(is_readable=False))] == [0.0]
    [one, other] = with_relevance([found("a", None), found("b", 0.9)], "b", asked())
    assert one.relevance is None
    assert other.relevance > 0.9
    assert with_relevance([], "b", asked()) == []
    [one] = with_relevance([found("b", 0.9)], "b", {"other": Asked()})
    assert one.relevance is None
