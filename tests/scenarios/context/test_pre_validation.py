"""Contract *context*, "Pre-Validation Script (Aligned)", against the live service with the local model."""

import json
import uuid

import numpy as np
import pytest
import yaml

from providers.embeddings.base import EmbeddingProvider
from providers.embeddings.minilm import MiniLMProvider
from providers.rag_wrapper.client import WrapperClient
from providers.rag_wrapper.dialect import ONCE
from retrieval.validation.gates import BUILT_IN, read_gate
from retrieval.validation.validation import ACCURACY, CLEAN_UP, EMBEDDINGS, INDEXING, INFRASTRUCTURE, Validation
from schemas.errors import InvalidInputError
from schemas.settings import RetrievalSettings
from tests.support.commands import run_command

COLLECTION = RetrievalSettings().context_collection


class Vectors(EmbeddingProvider):
    """Embeds every text as the given numbers."""

    id = "vectors"

    def __init__(self, numbers):
        super().__init__({"model": "numbers"})
        self._numbers = numbers

    @classmethod
    def connection_schema(cls):
        return {"type": "object", "properties": {"model": {"type": "string"}}}

    def _embed(self, texts):
        return np.array([self._numbers] * len(texts), dtype=np.float32)


@pytest.fixture(scope="module")
def minilm():
    with MiniLMProvider({}) as model:
        yield model


@pytest.fixture
def service(live):
    client = WrapperClient.at(live.url, retry=ONCE)
    yield client
    client.close()


@pytest.fixture
def gate(tmp_path):
    """`gate(**changes)` returns the built-in gate with other fields."""

    def make(**changes):
        path = tmp_path / f"{uuid.uuid4().hex}.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(BUILT_IN.read_text()) | changes))
        return read_gate(path)

    return make


@pytest.fixture
def validated(service):
    def run(gate, embedding):
        validation = Validation(service, embedding, gate, collection=COLLECTION)
        return validation.report(list(validation.steps()))

    return run


def _left_behind(service):
    return service.page(COLLECTION, {"source": "validation"})["total"]


def test_the_gate_checks_in_order_and_embeddings_must_have_unit_length_and_the_dimension_that_it_expects(
    validated, minilm, gate
):
    report = validated(read_gate(), minilm)
    phases = [step.phase for step in report.steps]
    assert phases == [INFRASTRUCTURE] * 6 + [EMBEDDINGS] * 5 + [INDEXING] * 3 + [ACCURACY] * 3 + [CLEAN_UP]
    assert (report.relevant, report.queries, report.passed) == (3, 3, True)
    for numbers, length in (([0.5, 0.5], "0.707"), ([1.2, 0.0], "1.200")):
        report = validated(read_gate(), Vectors(numbers))
        samples = [(step.passed, step.found) for step in report.steps if step.phase == EMBEDDINGS]
        assert samples == [(False, f"magnitude {length} outside [0.9, 1.1]")] * 5
        assert (report.passed, report.parts_passed) == (False, False)
        assert {step.phase for step in report.steps} == {INFRASTRUCTURE, EMBEDDINGS}
    report = validated(gate(dimension=768), minilm)
    assert "384 dimensions where 768 are expected" in [step.found for step in report.steps]
    assert not report.passed


def test_pre_validation_passes_at_100_percent_as_json_too_and_an_unreachable_service_fails(live, service):
    result = run_command("validate", "--url", live.url)
    assert (result.returncode, result.stderr) == (0, "")
    assert "VALIDATION PASSED: accuracy 100% (3 of 3, required 80%)" in result.stdout
    assert "'$500' is in result 1" in result.stdout
    assert _left_behind(service) == 0
    result = run_command("validate", "--url", live.url, "--json")
    report = json.loads(result.stdout)
    assert (result.returncode, report["passed"], report["accuracy"]) == (0, True, 1.0)
    assert {"phase", "name", "passed", "found", "latency_ms"} == set(report["steps"][0])
    result = run_command("validate", "--url", "http://127.0.0.1:9")
    assert result.returncode == 1
    assert "FAILED  Service" in result.stdout
    assert "VALIDATION FAILED" in result.stdout


def test_accuracy_below_80_percent_fails_filters_are_obeyed_and_texts_searched_for_literally(
    validated, gate, service, minilm
):
    right = {"query": "selenium timeout duration", "expected": "30 seconds", "category": "architecture"}
    wrong = {"query": "FireKirin jackpot amount", "expected": "$500", "game": "OrionStars"}
    report = validated(gate(queries=[right] * 3 + [wrong]), minilm)
    assert (report.accuracy, report.parts_passed, report.passed) == (0.75, True, False)
    assert [step.found for step in report.steps if step.phase == ACCURACY][3] == "'$500' is in none of 0 results"
    assert validated(gate(queries=[right] * 4 + [wrong]), minilm).passed
    assert _left_behind(service) == 0
    # As regular expressions, `$500` would match nothing and `.` anything.
    queries = [{"query": "selenium timeout duration", "category": "architecture", "expected": "30.seconds"}]
    report = validated(gate(queries=queries), minilm)
    [asked] = [step for step in report.steps if step.phase == ACCURACY]
    assert (asked.passed, asked.found.partition(" of ")[0]) == (False, "'30.seconds' is in none")


def test_indexed_documents_are_deleted_when_indexing_breaks_off(validated, gate, service, minilm):
    documents = [{"content": "This one is stored."}, {"content": "This one is not.", "contentType": "no such type"}]
    report = validated(gate(documents=documents), minilm)
    assert [step.passed for step in report.steps if step.phase == INDEXING] == [True, False]
    assert not report.passed
    assert _left_behind(service) == 0


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("[1", "cannot be read"),
        ("[]", "no gate"),
        ('{"documents": [{"content": "x"}]}', "/queries"),
        ('{"documents": [{}], "queries": [{"query": "x", "expected": "y"}]}', "/documents/0/content"),
        ('{"documents": [{"content": "x"}], "queries": [{"query": "x", "expected": "y"}], "more": 1}', "/more"),
    ],
)
def test_a_file_that_is_not_a_gate_is_refused_by_field(tmp_path, content, complaint):
    path = tmp_path / "gate.json"
    path.write_text(content)
    with pytest.raises(InvalidInputError, match=complaint):
        read_gate(path)
