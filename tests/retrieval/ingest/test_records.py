"""The lines of JSONL files."""

import base64
import io

import numpy as np
import pytest

from retrieval.ingest import records
from retrieval.ingest.records import BadLine, Record, read_records


def read(content):
    return list(read_records(io.BytesIO(content if isinstance(content, bytes) else content.encode())))


def test_records_of_both_spellings_also_behind_a_byte_order_mark_and_embeddings_as_numbers_or_base64():
    text = (
        '\ufeff{"id": "a", "text": "one", "metadata": {"n": 1}}\n\n'
        '{"_id": "b", "title": " T ", "text": "two"}\n{"_id": 7, "text": ""}'
    )
    plain, beir, numbered = read(text)
    assert (plain.id, plain.text, plain.metadata, plain.title, plain.embedding) == ("a", "one", {"n": 1}, "", None)
    assert (beir.id, beir.title, beir.line) == ("b", "T", 3)
    assert (numbered.id, numbered.line) == ("7", 4)
    assert numbered.end_bytes == len(text.encode())
    encoded = base64.b64encode(np.array([0.5, -1], dtype="<f4").tobytes()).decode()
    numbers, text = read(f'{{"text": "a", "embedding": [0.5, -1]}}\n{{"text": "b", "embedding": "{encoded}"}}')
    assert numbers.embedding.dtype == text.embedding.dtype == np.float32
    assert numbers.embedding.tolist() == text.embedding.tolist() == [0.5, -1]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"{not json", "is not JSON"),
        (b'{"text": "\xff"}', "is not JSON"),
        (b'{"text": NaN}', "is not JSON"),
        (b"[1]", "is not a JSON object"),
        (b"{}", "'text' is missing"),
        (b'{"text": 1}', "'text' is not a string"),
        (b'{"text": "a", "id": {}}', "'id' is not a string"),
        (b'{"text": "a", "id": true}', "'id' is not a string"),
        (b'{"text": "a", "title": 1}', "'title' is not a string"),
        (b'{"text": "a", "metadata": [1]}', "'metadata' is not an object"),
        (b'{"text": "a", "embedding": []}', "'embedding' is not an array of numbers"),
        (b'{"text": "a", "embedding": [1, true]}', "'embedding' is not an array of numbers"),
        (b'{"text": "a", "embedding": ["1"]}', "'embedding' is not an array of numbers"),
        (b'{"text": "a", "embedding": "????"}', "'embedding' is not base64"),
        (b'{"text": "a", "embedding": "AAA="}', "'embedding' is not base64"),
        (b'{"text": "a", "embedding": ""}', "'embedding' is not base64"),
        (b'{"text": "' + b"x" * 145 + b'"}', "is longer than 50 bytes"),
    ],
)
def test_a_bad_line_is_reported_and_the_others_are_read(monkeypatch, line, sentence):
    monkeypatch.setattr(records, "MAX_LINE_BYTES", 50)
    first, bad, last = read(b'{"text": "first"}\n' + line + b'\n{"text": "last"}\n')
    assert isinstance(first, Record)
    assert isinstance(last, Record)
    assert isinstance(bad, BadLine)
    assert bad.line == 2
    assert sentence in bad.message
