import base64
import os
from contextlib import suppress

import numpy as np
import pytest

from retrieval.ingest import sources
from retrieval.ingest.regular_files import LINK, NOT_A_FILE, open_regular
from retrieval.ingest.sources import Record, SourceError, read_records
from retrieval.ingest.walk import walk
from retrieval.reading import UnreadableError


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def read_lines(tmp_path, content):
    write(tmp_path, {"a.jsonl": content})
    return list(read_records(walk(tmp_path / "a.jsonl").files[0], "a.jsonl"))


def test_records_of_both_spellings_also_behind_a_byte_order_mark_and_embeddings_as_numbers_or_base64(tmp_path):
    plain, beir, numbered = read_lines(
        tmp_path,
        '\ufeff{"id": "a", "text": "one", "metadata": {"n": 1}}\n\n'
        '{"_id": "b", "title": " T ", "text": "two"}\n{"_id": 7, "text": ""}',
    )
    assert (plain.id, plain.text, plain.metadata, plain.title, plain.embedding) == ("a", "one", {"n": 1}, "", None)
    assert (beir.id, beir.title, beir.line) == ("b", "T", 3)
    assert (numbered.id, numbered.line) == ("7", 4)
    assert numbered.end_bytes == (tmp_path / "a.jsonl").stat().st_size
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
        (b'{"text": "' + b"x" * 145 + b'"}', "is longer than 50 bytes"),
    ],
)
def test_a_bad_line_is_reported_and_the_others_are_read(tmp_path, monkeypatch, line, sentence):
    monkeypatch.setattr(sources, "MAX_LINE_BYTES", 50)
    first, bad, last = read_lines(tmp_path, b'{"text": "first"}\n' + line + b'\n{"text": "last"}\n')
    assert isinstance(first, Record)
    assert isinstance(last, Record)
    assert isinstance(bad, SourceError)
    assert (bad.source, bad.line) == ("a.jsonl", 2)
    assert sentence in bad.message
    assert str(bad).startswith("a.jsonl:2: ")


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "docs"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "a.md").write_text("own")
    (folder / "link.md").symlink_to(folder / "below" / "a.md")
    (folder / "other").symlink_to(folder / "below")
    os.mkfifo(folder / "pipe")
    return folder


def test_a_file_is_opened_by_its_path_below_a_folder_which_may_be_a_link(root):
    with open_regular(root, "below/a.md") as opened:
        assert opened.read() == b"own"
    for path in ("link.md", "other/a.md"):
        with open_regular(root, path, follow_links=True) as opened:
            assert opened.read() == b"own"
    with open_regular(root / "other", "a.md") as opened:
        assert opened.read() == b"own"
    with pytest.raises(FileNotFoundError):
        open_regular(root, "below/none.md")


def opened_below(folder):
    """Return what this process has open in the folder; other threads open and close files elsewhere."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [each for each in found if each.startswith(str(folder))]


@pytest.mark.parametrize(
    ("path", "code"),
    [("link.md", LINK), ("other/a.md", LINK), ("link.md/a.md", LINK), ("pipe", NOT_A_FILE), ("below", NOT_A_FILE)],
)
def test_links_pipes_and_folders_are_refused(root, path, code):
    with pytest.raises(UnreadableError) as refused:
        open_regular(root, path)
    assert refused.value.code == code
    assert opened_below(root) == []
