from __future__ import annotations

import base64

import numpy as np
import pytest

from retrieval.ingest import sources
from retrieval.ingest.sources import (
    Record,
    SourceError,
    SourceKind,
    find_sources,
    read_records,
    read_text,
)
from schemas.errors import InvalidInputError


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def read_lines(tmp_path, content):
    write(tmp_path, {"a.jsonl": content})
    return list(read_records(find_sources(tmp_path / "a.jsonl")[0]))


def test_a_folder_is_read_recursively_in_order_without_hidden_or_foreign_files(tmp_path):
    names = ["b.md", "a/z.MARKDOWN", "a/y.txt", "c.rst", "d.jsonl", ".git/x.md", ".hidden.md", "e.pdf", "a/.x/f.md"]
    write(tmp_path, dict.fromkeys(names, "text"))
    found = find_sources(tmp_path)
    assert [file.source for file in found] == ["a/y.txt", "a/z.MARKDOWN", "b.md", "c.rst", "d.jsonl"]
    assert [file.kind.value for file in found] == ["text", "markdown", "markdown", "text", "jsonl"]
    assert {file.size_bytes for file in found} == {4}


def test_a_single_file_is_named_by_itself(tmp_path):
    write(tmp_path, {"sub/a.md": "text"})
    (file,) = find_sources(tmp_path / "sub/a.md")
    assert (file.source, file.kind) == ("a.md", SourceKind.MARKDOWN)


def test_a_link_to_a_folder_above_is_not_followed(tmp_path):
    write(tmp_path, {"a.md": "text"})
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert [file.source for file in find_sources(tmp_path)] == ["a.md"]


def test_only_the_corpus_of_a_beir_folder_is_read(tmp_path):
    write(tmp_path, {"x/corpus.jsonl": "", "x/queries.jsonl": "", "x/qrels/test.jsonl": "", "y/queries.jsonl": ""})
    assert [file.source for file in find_sources(tmp_path)] == ["x/corpus.jsonl", "y/queries.jsonl"]


@pytest.mark.parametrize(
    ("name", "sentence"), [("missing", "does not exist"), ("a.pdf", "not one of"), ("empty", "contains no files")]
)
def test_nothing_to_load_says_why(tmp_path, name, sentence):
    write(tmp_path, {"a.pdf": "x", "empty/b.pdf": "x"})
    with pytest.raises(InvalidInputError, match=sentence):
        find_sources(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "sentence"), [(b"abc \xff", "not UTF-8: byte 4"), (b"a\0b", "contains NUL characters")]
)
def test_a_file_that_is_not_text_is_refused(tmp_path, content, sentence):
    write(tmp_path, {"a.txt": content})
    with pytest.raises(InvalidInputError, match=sentence):
        read_text(find_sources(tmp_path)[0])


def test_a_byte_order_mark_is_not_text(tmp_path):
    write(tmp_path, {"a.txt": b"\xef\xbb\xbfhello", "b.jsonl": b'\xef\xbb\xbf{"text": "hello"}'})
    text_file, records_file = find_sources(tmp_path)
    assert read_text(text_file) == "hello"
    assert next(read_records(records_file)).text == "hello"


def test_records_of_both_spellings(tmp_path):
    plain, beir, numbered = read_lines(
        tmp_path,
        '{"id": "a", "text": "one", "metadata": {"n": 1}}\n\n'
        '{"_id": "b", "title": " T ", "text": "two"}\n{"_id": 7, "text": ""}',
    )
    assert (plain.id, plain.text, plain.metadata, plain.title, plain.embedding) == ("a", "one", {"n": 1}, "", None)
    assert (beir.id, beir.title, beir.line) == ("b", "T", 3)
    assert (numbered.id, numbered.line) == ("7", 4)
    assert numbered.end_bytes == (tmp_path / "a.jsonl").stat().st_size


def test_embeddings_come_as_numbers_or_base64(tmp_path):
    encoded = base64.b64encode(np.array([0.5, -1], dtype="<f4").tobytes()).decode()
    numbers, text = read_lines(
        tmp_path, f'{{"text": "a", "embedding": [0.5, -1]}}\n{{"text": "b", "embedding": "{encoded}"}}'
    )
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
    ],
)
def test_a_bad_line_is_reported_and_the_others_are_read(tmp_path, line, sentence):
    first, bad, last = read_lines(tmp_path, b'{"text": "first"}\n' + line + b'\n{"text": "last"}\n')
    assert isinstance(first, Record)
    assert isinstance(last, Record)
    assert isinstance(bad, SourceError)
    assert (bad.source, bad.line) == ("a.jsonl", 2)
    assert sentence in bad.message
    assert str(bad).startswith("a.jsonl:2: ")


def test_links_are_followed_only_when_asked_for_and_loops_end(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    for each in (outside, folder):
        each.mkdir()
    (outside / "secret.md").write_text("secret")
    (folder / "own.md").write_text("own")
    (folder / "file.md").symlink_to(outside / "secret.md")
    (folder / "there").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    assert [each.source for each in find_sources(folder)] == ["own.md"]
    followed = [each.source for each in find_sources(folder, follow_links=True)]
    assert followed == ["file.md", "own.md", "there/secret.md"]


def test_a_line_or_file_that_is_too_large_is_named_and_the_rest_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_LINE_BYTES", 30)
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "' + b"x" * 95 + b'"}\n{"text": "short"}\n')
    (records,) = find_sources(tmp_path)
    refused, read = read_records(records)
    assert str(refused) == "a.jsonl:1: is longer than 30 bytes"
    assert (read.line, read.text) == (2, "short")
    (tmp_path / "b.md").write_text("x" * 11)
    with pytest.raises(InvalidInputError, match="is larger than 10 bytes"):
        read_text(find_sources(tmp_path / "b.md")[0], max_bytes=10)
