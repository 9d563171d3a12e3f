import os
from contextlib import suppress

import pytest

from retrieval.ingest.walk import LINK, NOT_A_FILE, open_below
from retrieval.reading import UnreadableError


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


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
