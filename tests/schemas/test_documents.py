"""Documents and embeddings as requests bring them."""

import base64
import struct
from itertools import count

import numpy as np
import pytest

from schemas.documents import new_id, parse_document, parse_documents, parse_embedding
from schemas.errors import InvalidInputError

GOOD = {"text": "x", "embedding": [1.0, 2.0]}


def _encoded(*values):
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


@pytest.mark.parametrize(
    ("source", "values"),
    [
        ([1, 2.5, -3], [1, 2.5, -3]),
        ([1e-45], [1e-45]),
        ([1e-60, 0], [0, 0]),
        ([3.4e38], [3.4e38]),
        ([2**63, 10**30], [2**63, 10**30]),
        (_encoded(1, 2.5, -3), [1, 2.5, -3]),
    ],
)
def test_an_embedding_is_float32(source, values):
    vector = parse_embedding(source)
    assert vector.dtype == np.dtype("<f4")
    assert vector.tolist() == np.array(values, dtype="<f4").tolist()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ([], "must not be empty"),
        ([1, "2"], "element 1"),
        ([1, 2, True], "element 2"),
        ([0, 1e39], "element 1"),
        ([0, float("nan")], "element 1"),
        (_encoded(1, float("nan")), "element 1"),
        ("AAAA", "whole number of float32"),
        ("AAAAAA==\n", "base64"),
        ("ünïcode!", "base64"),
        ({}, "array of numbers"),
        (None, "array of numbers"),
        ([1.0] * 65_537, "65,537 numbers"),
        (_encoded(*[1.0] * 65_537), "65,537 numbers"),
        (np.ones(65_537), "65,537 numbers"),
    ],
)
def test_an_invalid_embedding_is_refused(source, reason):
    with pytest.raises(InvalidInputError, match=reason) as caught:
        parse_embedding(source, field="query_embedding", index=3)
    assert caught.value.code == "invalid_embedding"
    assert caught.value.details == {"field": "query_embedding", "index": 3}


def test_a_batch_is_kept_column_by_column():
    numbers = count()
    batch = parse_documents(
        [{**GOOD, "metadata": {"a": 1}}, {**GOOD, "id": "given", "metadata": None}, {**GOOD, "id": None}],
        lambda: f"made-{next(numbers)}",
    )
    assert batch.ids == ["made-0", "given", "made-1"]
    assert batch.texts == ["x"] * 3
    assert batch.metadatas == [{"a": 1}, {}, {}]
    assert batch.embeddings.shape == (3, 2)
    assert (len(batch), batch.dimension) == (3, 2)


def test_a_line_of_a_stream_has_no_index():
    with pytest.raises(InvalidInputError) as caught:
        parse_document({"embedding": [1]}, None, new_id)
    assert caught.value.details == {"field": "text"}
