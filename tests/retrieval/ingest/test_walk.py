"""A folder is walked, and its files are opened, without leaving it."""

import os
import warnings
import zipfile
from contextlib import suppress

import pytest

from retrieval.ingest.walk import LINK, NOT_A_FILE, open_below, walk
from retrieval.reading import UnreadableError
from schemas.errors import InvalidInputError, UnavailableError
from tests.support.rights import as_anybody


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def test_a_folder_is_read_recursively_in_order_and_what_is_passed_over_is_named(tmp_path):
    names = ["b.md", "a/z.MARKDOWN", "a/y.txt", "c.rst", "d.jsonl", "README", "e.pdf"]
    ignored = [".git/x.md", ".hidden.md", "f.xyz", "a/.x/f.md", "a/node_modules/x.md", "b.md~", "c.pyc"]
    write(tmp_path / "docs", dict.fromkeys([*names, *ignored], "text"))
    (tmp_path / "docs" / "program").write_bytes(b"\x7fELF\0\0")
    os.mkfifo(tmp_path / "docs" / "pipe")
    found = walk(tmp_path / "docs")
    assert found.folder == "docs"
    assert [(file.path_below, file.kind.name) for file in found.files] == [
        ("README", "text"),
        ("a/y.txt", "text"),
        ("a/z.MARKDOWN", "markdown"),
        ("b.md", "markdown"),
        ("c.rst", "rst"),
        ("d.jsonl", "jsonl"),
        ("e.pdf", "pdf"),
    ]
    assert {file.size_bytes for file in found.files} == {4}
    assert {(each.path, each.code) for each in found.passed_over} == {
        (".git/", "hidden"),
        (".hidden.md", "hidden"),
        ("a/node_modules/", "of_tools"),
        ("b.md~", "of_tools"),
        ("c.pyc", "of_tools"),
        ("a/.x/", "hidden"),
        ("f.xyz", "unsupported_kind"),
        ("pipe", "not_a_file"),
        ("program", "unsupported_kind"),
    }
    assert (found.errors, found.folders) == ([], ["", "a/"])
    alone = walk(tmp_path / "docs/a/y.txt")
    assert (alone.folder, [file.path_below for file in alone.files]) == ("a", ["y.txt"])


def test_what_cannot_be_looked_at_is_an_error(tmp_path):
    write(tmp_path, {"a.md": "text", "below/b.md": "text", "README": "text"})
    for name in ("below", "README"):
        (tmp_path / name).chmod(0)
    with as_anybody():
        found = walk(tmp_path)
        with pytest.raises(UnavailableError, match="cannot be listed: Permission denied"):
            walk(tmp_path / "below")
    (tmp_path / "below").chmod(0o700)
    assert [str(error) for error in found.errors] == [
        "README: cannot be read: Permission denied",
        "below/: cannot be listed: Permission denied",
    ]
    assert [file.path_below for file in found.files] == ["a.md"]


def test_only_the_corpus_of_a_beir_folder_is_read(tmp_path):
    write(tmp_path, {"x/corpus.jsonl": "", "x/queries.jsonl": "", "x/qrels/test.jsonl": "", "y/queries.jsonl": ""})
    assert [file.path_below for file in walk(tmp_path).files] == ["x/corpus.jsonl", "y/queries.jsonl"]
    assert {(each.path, each.code) for each in walk(tmp_path).passed_over} == {
        ("x/queries.jsonl", "beir"),
        ("x/qrels/", "beir"),
    }


def test_what_is_neither_a_file_nor_a_folder_is_not_loaded(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInputError, match="is neither a file nor a folder"):
        walk(tmp_path / "pipe")


def test_links_are_followed_only_when_asked_for_and_loops_end(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    for each in (outside, folder):
        each.mkdir()
    (outside / "secret.md").write_text("secret")
    (folder / "own.md").write_text("own")
    (folder / "file.md").symlink_to(outside / "secret.md")
    (folder / "there").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    (folder / "zero.md").symlink_to("/dev/zero")
    found = walk(folder)
    assert [each.path_below for each in found.files] == ["own.md"]
    passed_over = {"file.md": "link", "loop": "link", "there": "link", "zero.md": "not_a_file"}
    assert {each.path: each.code for each in found.passed_over} == passed_over
    followed = walk(folder, follow_links=True)
    assert [each.path_below for each in followed.files] == ["file.md", "own.md", "there/secret.md"]
    assert [(each.path, each.code) for each in followed.passed_over] == [("loop/", "link"), ("zero.md", "not_a_file")]


def test_of_two_names_that_are_one_the_second_is_an_error_and_so_is_one_that_is_not_utf_8(tmp_path):
    names = ["cafe\u0301.txt", "caf\u00e9.txt", "u\u0308/a.md", "\u00fc/a.md", "\u00fc/b.md"]
    write(tmp_path, {name: name for name in names})
    found = walk(tmp_path)
    assert [file.path_below for file in found.files] == [names[0], names[2], names[4]]
    assert [(each.path, each.code) for each in found.errors] == [(name, "repeated_name") for name in names[1:4:2]]
    assert "has the name of another file" in str(found.errors[0])
    strange = tmp_path / "strange"
    folder = strange / os.fsdecode(b"\xff")
    folder.mkdir(parents=True)
    (strange / os.fsdecode(b"r\xe9sum\xe9.md")).write_text("# Summary")
    (folder / "below.md").write_text("# Below")
    (strange / "own.md").write_text("# Own")
    found = walk(strange)
    assert [each.path_below for each in found.files] == ["own.md"]
    named = ["r?sum?.md: has a name that is not UTF-8", "?/: has a name that is not UTF-8"]
    assert sorted(map(str, found.errors)) == sorted(named)


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
    with open_below(root / "below/a.md", "below/a.md") as opened:
        assert opened.read() == b"own"
    for path in ("link.md", "other/a.md"):
        with open_below(root / path, path, follows_links=True) as opened:
            assert opened.read() == b"own"
    with open_below(root / "other/a.md", "a.md") as opened:
        assert opened.read() == b"own"
    with pytest.raises(UnreadableError, match="cannot be read: No such file"):
        open_below(root / "below/none.md", "below/none.md")


def open_files(folder):
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
        open_below(root / path, path)
    assert refused.value.code == code
    assert open_files(root) == []


def test_what_may_hold_secrets_is_left_out_and_told_first_unless_it_is_named_itself(tmp_path):
    secrets = [
        ".env",
        ".env.local",
        "id_rsa",
        "server.key",
        "tls.PEM",
        ".netrc",
        "credentials",
        "secrets.yaml",
        "a/.npmrc",
    ]
    others = ["environment.md", "secrets.md", "keys.txt", "id_rsa.md", "credentials.rst"]
    write(tmp_path, dict.fromkeys([".a.md", *secrets, *others], "text"))
    found = walk(tmp_path)
    assert sorted(file.path_below for file in found.files) == sorted(others)
    assert [each.code for each in found.passed_over] == ["secret"] * len(secrets) + ["hidden"]
    assert str(found.passed_over[0]).startswith(".env: is left out, as it may hold secrets")
    assert [file.path_below for file in walk(tmp_path / ".env").files] == [".env"]


def archive_of(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings(action="ignore"):
        for name, content in members:
            archive.writestr(name, content)
    return path


def test_of_an_archive_there_are_its_members_within_bounds(tmp_path):
    archive_of(tmp_path / "inner.zip", [("x.md", "# X")])
    link = zipfile.ZipInfo("link.md")
    link.external_attr = 0o120777 << 16
    members = [
        *(("a.md", "# A"), ("below/Über.txt", "text"), ("README", "text"), ("lines.jsonl", '{"text": "a"}')),
        *(("__MACOSX/._a.md", "x"), (".DS_Store", "x"), ("below/.git/x.md", "x"), ("b.exe", "x"), (".env", "x")),
        *(("../out.md", "x"), ("/abs.md", "x"), ("C:\\a.md", "x"), ("a.md", "again"), (link, "a.md")),
        ("inner.zip", (tmp_path / "inner.zip").read_bytes()),
    ]
    archive_of(tmp_path / "docs.zip", members)
    found = walk(tmp_path)
    assert [(file.path_below, file.kind.name) for file in found.files] == [
        ("docs.zip/a.md", "markdown"),
        ("docs.zip/below/Über.txt", "text"),
        ("docs.zip/README", "text"),
        ("docs.zip/lines.jsonl", "jsonl"),
        ("inner.zip/x.md", "markdown"),
    ]
    with found.files[0].open() as opened:
        assert opened.read() == b"# A"
    refused = {each.path.removeprefix("docs.zip/"): each.code for each in (*found.passed_over, *found.errors)}
    outside = dict.fromkeys(["../out.md", "/abs.md", "C:/a.md", "a.md"], "unreadable")
    unsupported = dict.fromkeys(["b.exe", "link.md", "inner.zip"], "unsupported_kind")
    assert refused == {".env": "secret", **outside, **unsupported}
    assert [file.path_below for file in walk(tmp_path / "inner.zip").files] == ["inner.zip/x.md"]


def test_an_archive_that_is_too_much_damaged_or_encrypted_is_one_sentence(tmp_path):
    whole = archive_of(tmp_path / "a.zip", [("a.md", "# A" * 99)]).read_bytes()
    directory = whole.index(b"PK\1\2")
    encrypted = bytearray(whole)
    encrypted[directory + 8] |= 1
    bomb = bytearray(whole)
    bomb[directory + 24 : directory + 28] = b"\xff\xff\xff\x7f"
    cases = {
        "a.zip/": (archive_of(tmp_path / "a.zip", [(f"{n}.md", "x") for n in range(1_001)]).read_bytes(), "too_large"),
        "b.zip/": (bytes(bomb), "too_large"),
        "c.zip/": (whole[:-30], "unreadable"),
        "d.zip/a.md": (bytes(encrypted), "encrypted"),
    }
    write(tmp_path, {name.partition("/")[0]: content for name, (content, _) in cases.items()})
    found = walk(tmp_path)
    assert {each.path: each.code for each in found.errors} == {name: code for name, (_, code) in cases.items()}
    assert not found.files
    broken = whole[:36] + b"\xff" * 4 + whole[40:]
    write(tmp_path / "f", {"f.zip": broken})
    (file,) = walk(tmp_path / "f").files
    with pytest.raises(UnreadableError, match="damaged"):
        file.open()
