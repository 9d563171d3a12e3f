"""Calibrations: what a model's cosines stand for, built in and from a file of the operator's."""

import json
from itertools import pairwise

import pytest

from providers.base import ProviderContext
from providers.calibration import Uncalibrated, calibration_of, read_calibration
from providers.embeddings.base import EmbeddingProvider
from schemas.errors import ConfigurationError

CURVE = {"models": ["mine"], "midpoint": 0.4, "slope": 20, "missing_words": 0.1, "min_relevance": 0.7}
CALIBRATED = ("all-MiniLM-L6-v2", "all-MiniLM-L6-v2-int8")


class Mine(EmbeddingProvider):
    id, display_name = "mine", "Mine"

    @classmethod
    def connection_schema(cls):
        return {"type": "object", "properties": {"model": {"type": "string"}}}

    def _embed(self, texts):
        raise NotImplementedError  # no test here embeds


@pytest.fixture
def written(tmp_path):
    def write(**changes):
        file = tmp_path / "calibration.json"
        file.write_text(json.dumps({name: value for name, value in (CURVE | changes).items() if value is not None}))
        return file

    return write


@pytest.mark.parametrize("model", CALIBRATED)
def test_the_local_models_are_calibrated(model):
    curve = calibration_of(model)
    assert curve.min_relevance == 0.8
    assert curve.relevance(0.0, 1.0) < 0.05
    assert curve.relevance(0.7, 0.0) > 0.99


@pytest.mark.parametrize("words_found", [0.0, 0.5, 1.0])
def test_relevance_grows_with_the_cosine_and_with_the_words_found(words_found):
    curve = calibration_of(CALIBRATED[0])
    relevances = [curve.relevance(step / 100, words_found) for step in range(-100, 101)]
    assert all(0.0 <= each <= 1.0 for each in relevances)
    assert all(first <= second for first, second in pairwise(relevances))
    relevances = [curve.relevance(0.35, share / 10) for share in range(11)]
    assert all(first < second for first, second in pairwise(relevances))


def test_the_operators_file_says_what_a_cosine_means_and_a_model_that_nobody_measured_keeps_its_own(written):
    context = ProviderContext(calibrations=read_calibration(written()))
    mine, other = Mine({"model": "mine"}, context), Mine({"model": "other"}, context)
    assert mine.relevance(0.4) == pytest.approx(0.5)
    assert mine.relevance(0.5, 0.0) == pytest.approx(0.5), "a cosine greater by missing_words"
    assert mine.min_relevance == 0.7
    assert other.relevance(0.4) == 0.4
    unknown = calibration_of("text-embedding-3-small")
    assert unknown == Uncalibrated()
    assert [unknown.relevance(cosine, 0.0) for cosine in (-1.0, -0.2, 0.0, 0.6, 1.0)] == [0.0, 0.0, 0.0, 0.6, 1.0]
    assert unknown.min_relevance is None
    curve = read_calibration(written(midpoint=-1, slope=100, missing_words=1))["mine"]
    assert (curve.relevance(-1.0, 0.0), curve.relevance(1.0, 1.0)) == (pytest.approx(0.0), pytest.approx(1.0))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"slope": 0}, "/slope"),
        ({"slope": "steep"}, "/slope"),
        ({"midpoint": 1.5}, "/midpoint"),
        ({"missing_words": -0.1}, "/missing_words"),
        ({"min_relevance": 2}, "/min_relevance"),
        ({"models": []}, "/models"),
        ({"models": [7]}, "/models/0"),
        ({"midpoint": None}, "midpoint"),
        *((no_object, r"calibration\.json") for no_object in (b"", b"[]", b"7", b"{", b"\xff")),
    ],
)
def test_a_faulty_file_is_refused_with_the_place(written, content, said):
    file = written(**content if isinstance(content, dict) else {})
    if isinstance(content, bytes):
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=said):
        read_calibration(file)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_calibration(file.with_name("nowhere.json"))
