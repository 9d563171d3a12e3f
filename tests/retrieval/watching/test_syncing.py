"""A folder is kept in sync: differences are found, and other files are left out. Files that cannot be indexed do no harm to
others, and a folder that may not be what it seems deletes nothing."""

import os

import pytest

from retrieval.ingest.identity import document_id
from retrieval.ingest.loading import load
from retrieval.ingest.profiles import chunking_of
from retrieval.reading import DocumentReader
from retrieval.watching.events import is_ignored
from retrieval.watching.folder import Folder, FolderUnavailableError
from retrieval.watching.watched_documents import source_of
from schemas.settings import RetrievalSettings
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.retrieval.watching.conftest import MAX_FILE_BYTES, compare
from tests.support.rights import as_anybody


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


class TestFailed:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"\x01\x02", "is not a text: it contains control characters"),
            (b"a\0b", "is not a text"),
            (b"x" * (MAX_FILE_BYTES + 1), "is larger than 10000 bytes"),
            (b"forbidden", "Chunk 1 (“forbidden”) cannot be embedded: is refused by the model"),
            (b"poison", "Chunk 1 (“poison”) cannot be embedded: The embeddings are away"),
        ],
    )
    def test_a_file_that_cannot_be_indexed_does_not_hold_up_the_others(self, root, in_step, stored, content, reason):
        (root / "a.md").write_bytes(content)
        (root / "b.md").write_text("text")
        sync = in_step()
        assert sync.failed == {"a.md": reason}
        assert (list(stored()), sync.pending) == (["docs/b.md"], 0)

    @pytest.mark.parametrize("content", ["forbidden", "poison"])
    def test_a_failed_file_is_not_tried_again_until_it_changes(self, root, embedding, in_step, content):
        (root / "a.md").write_text(content)
        sync = in_step()
        asked = []
        embedding._embed = lambda texts: asked.append(texts) or LetterEmbedding._embed(embedding, texts)
        sync.forget({"a.md"})
        os.utime(root / "a.md", (1, 1))
        compare(sync)
        assert (asked, list(sync.failed)) == ([], ["a.md"])
        (root / "a.md").write_text("allowed")
        compare(sync)
        assert (len(asked), sync.failed, sync.indexed) == (1, {}, 1)

    def test_the_last_good_version_of_a_failed_file_stays(self, root, in_step, stored):
        (root / "a.md").write_text("good")
        in_step()
        (root / "a.md").write_bytes(b"\x01")
        assert in_step().deleted == 0
        assert stored()["docs/a.md"].text == "good"

    def test_an_unreadable_file_does_not_count_as_deleted(self, root, in_step, stored):
        (root / "below").mkdir()
        for path in ("a.md", "below/b.md"):
            (root / path).write_text("text")
        in_step()
        (root / "a.md").chmod(0)
        (root / "below").chmod(0)
        with as_anybody():
            sync = in_step()
        (root / "below").chmod(0o700)
        assert sync.failed == {
            "a.md": "cannot be read: Permission denied",
            "below/": "cannot be listed: Permission denied",
        }
        assert sorted(stored()) == ["docs/a.md", "docs/below/b.md"]

    def test_files_below_a_folder_that_cannot_be_listed_stay(self, root, store, in_step):
        (root / "a.md").write_text("text")
        in_step()
        place = os.open(root, os.O_RDONLY)
        for _ in range(20):
            os.mkdir("n" * 250, dir_fd=place)
            place, above = os.open("n" * 250, os.O_RDONLY, dir_fd=place), place
            os.close(above)
        os.close(place)
        (folder,) = in_step().failed
        own = next(iter(store.store.stored["context"].values()))
        below = {"path": f"{folder}b.md", "document_id": document_id(source_of("docs", f"{folder}b.md"))}
        store.store.stored["context"]["below"] = own | {"id": "below", "metadata": own["metadata"] | below}
        sync = in_step()
        assert sync.failed == {folder: "cannot be listed: File name too long"}
        assert sync.deleted == 0
        store.store.stored["context"]["below"]["metadata"] |= {
            "path": "b.md",
            "document_id": document_id(source_of("docs", "b.md")),
        }
        assert in_step().deleted == 1

    def test_files_with_unusual_names_are_indexed(self, root, in_step, stored):
        names = ["with spaces.md", "line\nbreak.md", "ünï ☃.md", "quote'\"\\.md", "-.md", "%2e.md"]
        for name in names:
            (root / name).write_text(name)
        (root / os.fsdecode(b"\xff.md")).write_text("text")
        sync = in_step()
        assert sorted(stored()) == sorted(f"docs/{name}" for name in names)
        assert sync.failed == {"?.md": "has a name that is not UTF-8"}
        assert in_step().indexed == 0

    def test_a_name_that_is_spelled_otherwise_is_the_same_file_and_of_two_that_are_one_the_second_fails(
        self, root, in_step, stored
    ):
        decomposed, composed = "cafe\u0301.md", "caf\u00e9.md"
        (root / decomposed).write_text("the first")
        (root / composed).write_text("the second")
        sync = in_step()
        assert (sync.indexed, list(sync.failed)) == (1, [composed])
        assert "has the name of another file" in sync.failed[composed]
        assert (in_step().indexed, [each.text for each in stored().values()]) == (0, ["the first"])
        (root / decomposed).unlink()
        compare(sync)
        assert (sync.deleted, sync.failed, [each.text for each in stored().values()]) == (0, {}, ["the second"])
        assert in_step().indexed == 0
        sync = in_step()
        (root / "caf\u00e9.md").rename(root / "cafe\u0301.md")
        compare(sync)
        assert (sync.deleted, [each.text for each in stored().values()]) == (0, ["the second"])
        assert (in_step().indexed, in_step().deleted) == (0, 0)


class TestDoubtfulFolders:
    def test_an_empty_folder_deletes_nothing_unless_it_may_be_empty(self, root, in_step, stored):
        assert in_step().files == 0, "where nothing is stored"
        (root / "a.md").write_text("text")
        in_step()
        (root / "a.md").unlink()
        with pytest.raises(FolderUnavailableError, match="1 of it are stored: nothing is deleted"):
            in_step()
        assert list(stored()) == ["docs/a.md"]
        assert in_step(may_be_empty=True).deleted == 1
        assert stored() == {}

    def test_a_missing_folder_deletes_nothing(self, root, open_sync, in_step, stored):
        (root / "a.md").write_text("text")
        sync = in_step()
        root.rename(root.with_name("away"))
        with pytest.raises(FolderUnavailableError, match="cannot be found"):
            sync.look()
        with pytest.raises(FolderUnavailableError, match="cannot be found"):
            open_sync()
        assert list(stored()) == ["docs/a.md"]

    def test_a_folder_replaced_while_files_are_deleted_deletes_no_more(self, root, in_step, stored):
        for name in ("a.md", "b.md", "c.md"):
            (root / name).write_text(name)
        sync = in_step()
        (root / "a.md").unlink()
        sync.look()
        root.rename(root.with_name("away"))
        root.mkdir()
        with pytest.raises(FolderUnavailableError, match="was replaced"):
            sync.work()
        assert len(stored()) == 3

    def test_a_file_that_vanishes_before_it_is_read_is_no_failure_and_one_written_meanwhile_is_read_again(
        self, root, open_sync, in_step, stored
    ):
        (root / "a.md").write_text("text")
        (root / "b.md").write_text("text")
        sync = open_sync()
        sync.look()
        (root / "a.md").unlink()
        sync.work()
        assert (sync.indexed, sync.files, sync.failed) == (1, 1, {})
        (root / "a.md").write_text("half")
        sync = in_step()
        (root / "a.md").write_text("half and the rest")
        compare(sync)
        assert stored()["docs/a.md"].text == "half and the rest"
