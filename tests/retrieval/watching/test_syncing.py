"""A folder is kept in sync: differences are found, and other files are left out."""

import os

import pytest

from retrieval.ingest.loading import load
from retrieval.ingest.profiles import chunking_of
from retrieval.reading import DocumentReader
from retrieval.watching.events import is_ignored
from retrieval.watching.folder import Folder
from schemas.settings import RetrievalSettings
from tests.retrieval.watching.conftest import MAX_FILE_BYTES


class TestInStep:
    def test_a_file_is_a_document_of_the_context_tools(self, root, in_step, stored):
        (root / "guide.md").write_text("# Guide\n\nHow to start.\n")
        (root / "app").mkdir()
        (root / "app" / "main.py").write_text("print('hello')\n")
        sync = in_step()
        assert (sync.files, sync.indexed, sync.deleted, sync.pending, sync.failed) == (2, 2, 0, 0, {})
        guide, main = stored()["docs/guide.md"].metadata, stored()["docs/app/main.py"].metadata
        assert (guide["title"], guide["contentType"]) == ("Guide", "documentation")
        assert (guide["folder"], guide["path"]) == ("docs", "guide.md")
        assert (main["title"], main["contentType"], main["path"]) == ("main.py", "code", "app/main.py")

    @pytest.mark.parametrize("name", ["long.md", "long.py"])
    def test_a_file_is_split_as_load_splits_it(self, root, store, embedding, in_step, name):
        (root / name).write_text("".join(f"value_{number} = {number}\n" for number in range(500)))
        in_step()
        with DocumentReader() as reader:
            load(
                root,
                provider=store,
                collection="loaded",
                embedding=embedding,
                chunking=chunking_of(RetrievalSettings(), embedding),
                reader=reader,
            )
        watched, loaded = (
            {each["id"]: each["text"] for each in store.store.stored[n].values()} for n in ("context", "loaded")
        )
        assert watched == loaded
        assert len(watched) > 2

    def test_an_unchanged_file_costs_no_embedding_and_no_write_and_other_documents_with_the_same_folder_stay(
        self, root, store, embedding, in_step, open_sync
    ):
        (root / "guide.md").write_text("# Guide\n")
        in_step()
        embedded, calls = list(embedding.embedded), list(store.store.calls)
        os.utime(root / "guide.md", (1, 1))
        assert in_step().indexed == 0
        assert (embedding.embedded, store.store.calls) == (embedded, calls)
        own = next(iter(store.store.stored["context"].values()))
        other = own | {"id": "other", "metadata": own["metadata"] | {"document_id": "other", "path": "gone.md"}}
        store.store.stored["context"]["other"] = other
        assert in_step().deleted == 0
        assert "other" in store.store.stored["context"]

    def test_changed_deleted_and_renamed_files_are_found_after_a_restart(self, root, in_step, stored):
        for name in ("changed.md", "deleted.md", "renamed.md"):
            (root / name).write_text(f"# {name}\n")
        in_step()
        (root / "changed.md").write_text("# Other\n")
        (root / "deleted.md").unlink()
        (root / "renamed.md").rename(root / "moved.md")
        sync = in_step()
        assert (sync.indexed, sync.deleted) == (2, 2)
        assert {source: each.text for source, each in stored().items()} == {
            "docs/changed.md": "# Other",
            "docs/moved.md": "# renamed.md",
        }


class TestPassedOver:
    def test_hidden_ignored_and_other_files_are_named(self, root, in_step, stored):
        for path in (
            ".hidden.md",
            ".git/a.md",
            "node_modules/a.js",
            "a/.b/c.md",
            "picture.png",
            "corpus.jsonl",
            "x.md~",
        ):
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("text")
        (root / "seen.MD").write_text("text")
        sync = in_step()
        assert (sync.files, list(stored()), sync.failed) == (1, ["docs/seen.MD"], {})
        assert sync.passed_over == {
            ".git/": "is hidden",
            ".hidden.md": "is hidden",
            "a/.b/": "is hidden",
            "corpus.jsonl": "has a document in each line, which is for `rag-wrapper load`",
            "node_modules/": "is of version control, a package manager or an editor",
            "picture.png": "is of no kind that can be read",
            "x.md~": "is of version control, a package manager or an editor",
        }

    def test_the_names_of_folders_above_do_not_matter_and_symbolic_links_are_not_followed(
        self, root, tmp_path, in_step
    ):
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret.md").write_text("secret")
        (root / "loop").symlink_to(root)
        (root / "out").symlink_to(outside)
        (root / "secret.md").symlink_to(outside / "secret.md")
        assert in_step().files == 0
        root = tmp_path / "node_modules" / ".hidden"
        root.mkdir(parents=True)
        (root / "a.md").write_text("text")
        folder = Folder(root, "docs", is_ignored=is_ignored, max_file_bytes=MAX_FILE_BYTES)
        assert list(folder.listing().files) == ["a.md"]

    def test_a_link_that_replaces_a_file_is_not_read(self, root, tmp_path, open_sync, stored):
        (tmp_path / "secret.md").write_text("secret")
        (root / "below").mkdir()
        for path in ("a.md", "below/b.md", "c.md"):
            (root / path).write_text("public")
        sync = open_sync()
        sync.look()
        (root / "a.md").unlink()
        (root / "a.md").symlink_to(tmp_path / "secret.md")
        (root / "below").rename(tmp_path / "moved")
        (root / "below").symlink_to(tmp_path / "moved")
        sync.work()
        assert list(stored()) == ["docs/c.md"]
