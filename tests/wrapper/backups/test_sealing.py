"""Archives that were changed, shortened, put together from others or made to do harm."""

import io
import random
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest
import zstandard

from tests.wrapper.backups.conftest import KEY
from wrapper.backups import archive
from wrapper.backups.archive import ArchiveReader, ArchiveWriter, salted
from wrapper.backups.manifest import TALLY_BYTES, Head, Reason, Tally, dump_head, load_head
from wrapper.backups.sealing import ArchiveKey, DamagedArchiveError, PlainChunks, SealedChunks, WrongKeyError

CONTENT = {"catalog.sqlite": bytes(range(256)) * 9_000, "secret.key": b"key\n", "audit/empty": b""}
NOISE = random.Random(1).randbytes(2_000)
"""What does not get smaller by packing."""
END = b"M" + TALLY_BYTES.to_bytes(4) + Tally().told()
"""The end of an archive without members."""
HEAD = Head(
    id="rag-wrapper-20261125T184500Z-3f2a9c1d",
    created_at=datetime(2026, 11, 25, 18, 45, tzinfo=UTC),
    release="0.2.0",
    reason=Reason.ASKED,
    kind="sqlite",
    schema_version=13,
    catalogue="one",
    counts={"documents": 1},
    whole=True,
)


def written(key=None, content=CONTENT, head=HEAD):
    salt, check = salted(key)
    file = io.BytesIO()
    writer = ArchiveWriter(file, replace(head, salt=salt, check=check), key)
    for name, each in content.items():
        writer.add(name, iter([each]))
    writer.finish()
    return file.getvalue()


def read(content, key=None):
    reader = ArchiveReader(io.BytesIO(content), key)
    return {name: b"".join(pieces) for name, pieces in reader.entries()}


def body_at(content):
    """Return where the body of an archive begins."""
    start = len(archive.MAGIC)
    return start + 4 + int.from_bytes(content[start : start + 4])


def chunks_of(content, end=4):
    """Return (what comes before the chunks, the chunks with their lengths)."""
    at = body_at(content)
    before, chunks = content[:at], []
    while length := int.from_bytes(content[at : at + 4]):
        chunks.append(content[at : at + 4 + length])
        at += 4 + length
    return before, chunks


@pytest.fixture(params=[None, KEY], ids=["plain", "encrypted"])
def key(request):
    return request.param


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr("wrapper.backups.sealing.CHUNK_BYTES", 256)


def test_what_was_written_is_read_whether_anybody_wants_it_or_not(key):
    assert read(written(key), key) == CONTENT
    assert [name for name, _ in ArchiveReader(io.BytesIO(written(key)), key).entries()] == list(CONTENT)
    assert read(written(), KEY) == CONTENT  # a plain archive takes any key
    assert read(framed(key, END), key) == {}


def test_every_shorter_file_is_refused(key, small_chunks):
    content = written(key, {"secret.key": bytes(range(256)) * 4})
    for length in range(len(content)):
        with pytest.raises(DamagedArchiveError):
            read(content[:length], key)


def test_every_changed_byte_is_noticed(key, small_chunks):
    content = written(key, {"secret.key": bytes(range(256)) * 2})
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 1
        with pytest.raises((DamagedArchiveError, WrongKeyError)):
            read(bytes(changed), key)


def test_something_after_the_end_is_noticed(key):
    with pytest.raises(DamagedArchiveError):
        read(written(key) + b"?", key)


@pytest.mark.parametrize("change", ["reordered", "repeated", "left out", "cut before the last", "of another"])
def test_chunks_are_bound_to_their_places(small_chunks, change):
    before, chunks = chunks_of(written(KEY, {"secret.key": NOISE}))
    assert len(chunks) > 3
    other = chunks_of(written(KEY, {"secret.key": NOISE}))[1]
    changed = {
        "reordered": [chunks[1], chunks[0], *chunks[2:]],
        "repeated": [chunks[0], *chunks],
        "left out": [chunks[0], *chunks[2:]],
        "cut before the last": chunks[:-1],
        "of another": [other[0], *chunks[1:]],
    }[change]
    with pytest.raises(DamagedArchiveError):
        read(before + b"".join(changed) + bytes(4), KEY)
    assert read(before + b"".join(chunks) + bytes(4), KEY)  # the same, put together without a change


def test_two_archives_of_the_same_have_nothing_in_common():
    first, second = (chunks_of(written(KEY))[1] for _ in range(2))
    assert not set(first) & set(second)


def named(name):
    return b"N" + len(name.encode()).to_bytes(4) + name.encode()


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        (b"", "its end is missing"),
        (b"X" + bytes(4), "something unknown"),
        (b"M" + (0xFFFFFFFF).to_bytes(4), "something unknown"),
        (b"M" + (2).to_bytes(4) + b"[]", "something unknown"),
        (named("name") + b"D" + (0xFFFFFFFF).to_bytes(4), "a part of it is too long"),
        (named("name") + END, "not those that it was made of"),
        (b"M" + (TALLY_BYTES).to_bytes(4) + bytes(TALLY_BYTES), "not those that it was made of"),
        (named("x" * 2_000) + END, "the name of a member is too long"),
        *((named(each) + END, "a name that no backup gives") for each in ("../up", ".hidden", "", "a\\b:c", "é")),
        (END + b"more", "something comes after its end"),
    ],
)
def test_frames_that_no_backup_has_are_refused(key, frames, said):
    with pytest.raises(DamagedArchiveError, match=said):
        read(framed(key, frames), key)


@pytest.mark.slow
def test_any_number_of_members_takes_no_more_memory(key):
    """Names and sizes of a million originals would be 100 MB."""
    wanted = 20_000
    content = written(key, {f"originals/c0ffee/{number:050}": b"" for number in range(wanted)})
    reader = ArchiveReader(io.BytesIO(content), key)
    tracemalloc.start()
    try:
        seen = sum(1 for _ in reader.entries())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seen == wanted
    assert most < 1 << 20


def test_a_body_that_unpacks_to_far_more_takes_no_memory(key):
    bomb = framed(key, named("a") + (b"D" + (1 << 20).to_bytes(4) + bytes(1 << 20)) * 16)
    assert len(bomb) < 100_000
    reader = ArchiveReader(io.BytesIO(bomb), key)
    _, pieces = next(reader.entries())
    assert max(map(len, (next(pieces) for _ in range(16)))) == 1 << 20


def test_a_body_that_is_not_packed_is_refused(key):
    with pytest.raises(DamagedArchiveError):
        read(framed(key, b"M" + bytes(4), packs=False), key)


@pytest.mark.parametrize(
    "head", [b"", b"[]", b"{}", b'{"format":99,"release":"9.0.0"}', b'{"format":"1"}', b"\xff" * 40]
)
def test_a_head_that_is_none_is_refused(head):
    with pytest.raises(DamagedArchiveError):
        read(archive.MAGIC + len(head).to_bytes(4) + head)


@pytest.mark.parametrize(
    "change",
    [
        {"created_at": HEAD.created_at.replace(tzinfo=None)},
        {"id": "rag-wrapper\x1b[2J"},
        {"release": "0.2.0\nRestored"},
        {"kind": "sqlite\x9b"},
        {"counts": {"docu\x1bments": 1}},
    ],
)
def test_a_head_without_a_zone_or_that_would_do_something_to_a_terminal_is_none(change):
    with pytest.raises(DamagedArchiveError) as caught:
        load_head(dump_head(replace(HEAD, **change)))
    assert caught.value.message.isprintable()


def test_a_head_of_a_newer_format_says_of_which_release_it_is_unless_that_is_none():
    for release, said in (("9.0.0", r"by release 9\.0\.0"), ("9\x1b[2J", "cannot be read")):
        with pytest.raises(DamagedArchiveError, match=said):
            load_head(orjson.dumps({"format": 99, "release": release}))


def framed(key, frames, *, packs=True):
    """Return an archive whose body is made of these frames, sealed and packed as it should be."""
    salt, check = salted(key)
    file = io.BytesIO()
    writer = ArchiveWriter(file, replace(HEAD, salt=salt, check=check), key)
    del writer
    before = file.getvalue()
    body = io.BytesIO()
    sink = PlainChunks(body, before) if key is None else SealedChunks(body, before, ArchiveKey(key, salt))
    sink.write(zstandard.ZstdCompressor().compress(frames) if packs else frames)
    sink.close()
    return before + body.getvalue()
