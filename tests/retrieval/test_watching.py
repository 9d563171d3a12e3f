"""A folder kept in sync: what is found to differ, what is done about it, and what happens when something is away."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime

import pytest

from providers.base import SupportsMetadataFiltering
from retrieval.collection_writer import CollectionWriter
from retrieval.context.documents import to_source
from retrieval.drafts import document_id, drafts_of
from retrieval.watching.documents import source_of
from retrieval.watching.events import LONGEST_BURST, is_ignored, settled
from retrieval.watching.folder import Folder, FolderUnavailableError
from retrieval.watching.pauses import Pauses
from retrieval.watching.reporting import Reporter
from retrieval.watching.syncing import FolderSync
from retrieval.watching.watcher import RESCAN_SECONDS, Watcher
from schemas.errors import ConflictError, InvalidInputError, UnavailableError
from schemas.watchers import RETRYING, SCANNING, STOPPED, WATCHING
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.retrieval.model_store import ModelProvider

MAX_FILE_BYTES = 10_000
NOW = datetime(2026, 11, 22, 8, 30, tzinfo=UTC)


class Store(ModelProvider):
    """A store that can be away, and count how often it was read whole."""

    def __init__(self):
        super().__init__()
        self.is_away = False

    def documents(self, *arguments, **options):
        self._answer()
        return super().documents(*arguments, **options)

    def add_documents(self, *arguments, **options):
        self._answer()
        return super().add_documents(*arguments, **options)

    def _answer(self):
        if self.is_away:
            raise UnavailableError("The service is away")


class Embedding(LetterEmbedding):
    def __init__(self, model="letters-1"):
        super().__init__(model)
        self.is_away = False

    def _embed(self, texts):
        if self.is_away or any("poison" in text for text in texts):
            raise UnavailableError("The embeddings are away")
        if any("forbidden" in text for text in texts):
            raise InvalidInputError("is refused by the model")
        return super()._embed(texts)


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def embedding():
    return Embedding()


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder


@pytest.fixture
def open_sync(root, store, embedding):
    """`open_sync()`: the folder as a process that has just started sees it."""

    def open_sync(*, embedding=embedding, **options):
        folder = Folder(root, "docs", is_ignored=is_ignored, max_file_bytes=MAX_FILE_BYTES)
        return FolderSync(folder, lambda: CollectionWriter(store, "context", embedding), clock=lambda: NOW, **options)

    return open_sync


@pytest.fixture
def in_step(open_sync):
    """`in_step()`: the folder in step, as a process that starts now brings it."""

    def in_step(**options):
        sync = open_sync(**options)
        sync.read_stored()
        sync.look()
        sync.work()
        return sync

    return in_step


@pytest.fixture
def stored(store):
    """`stored()`: the first chunks in the collection by source."""

    def stored():
        if "context" not in store.store.collections:
            return {}
        found = store.documents("context", {"chunk_index": 0}, limit=1000)
        assert isinstance(store, SupportsMetadataFiltering)
        every, cursor = list(found.documents), found.next_cursor
        while cursor:
            found = store.documents("context", {"chunk_index": 0}, limit=1000, cursor=cursor)
            every, cursor = every + found.documents, found.next_cursor
        return {each.metadata["source"]: each for each in every}

    return stored


class TestInStep:
    def test_a_file_is_a_document_of_the_context_tools(self, root, in_step, stored):
        (root / "guide.md").write_text("# Guide\n\nHow to start.\n")
        (root / "app").mkdir()
        (root / "app" / "main.py").write_text("print('hello')\n")
        sync = in_step()
        assert (sync.files, sync.indexed, sync.deleted, sync.pending, sync.failed) == (2, 2, 0, 0, {})
        guide, main = stored()["docs/guide.md"].metadata, stored()["docs/app/main.py"].metadata
        assert (guide["title"], guide["contentType"], guide["folder"], guide["path"]) == (
            "Guide",
            "documentation",
            "docs",
            "guide.md",
        )
        assert (main["title"], main["contentType"], main["path"]) == ("main.py", "code", "app/main.py")

    @pytest.mark.parametrize(("name", "content_type"), [("long.md", "documentation"), ("long.py", "code")])
    def test_it_is_split_as_the_tool_splits_it(self, root, store, embedding, in_step, name, content_type):
        text = "".join(f"value_{number} = {number}\n" for number in range(500))
        (root / name).write_text(text)
        in_step()
        chunks = sorted(store.store.stored["context"].values(), key=lambda each: each["metadata"]["chunk_index"])
        by_tool, _ = drafts_of(to_source({"content": text, "contentType": content_type}, embedding), embedding.model)
        assert [each["text"] for each in chunks] == [each.text for each in by_tool]
        assert len(chunks) > 2

    def test_what_has_not_changed_costs_no_embedding_and_no_write(self, root, store, embedding, in_step):
        (root / "guide.md").write_text("# Guide\n")
        in_step()
        embedded, calls = list(embedding.embedded), list(store.store.calls)
        os.utime(root / "guide.md", (1, 1))
        assert in_step().indexed == 0
        assert (embedding.embedded, store.store.calls) == (embedded, calls)

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

    def test_a_changed_file_replaces_all_of_its_chunks(self, root, store, in_step):
        (root / "guide.md").write_text("word " * 1900)
        in_step()
        assert len(store.store.stored["context"]) > 2
        (root / "guide.md").write_text("Short now.")
        in_step()
        assert [each["text"] for each in store.store.stored["context"].values()] == ["Short now."]

    def test_a_file_that_is_emptied_leaves_nothing(self, root, store, in_step):
        (root / "guide.md").write_text("# Guide\n")
        in_step()
        (root / "guide.md").write_text(" \n")
        sync = in_step()
        assert (store.store.stored["context"], sync.failed) == ({}, {})

    def test_documents_of_others_with_the_same_folder_stay(self, root, store, embedding, in_step, open_sync):
        (root / "guide.md").write_text("# Guide\n")
        in_step()
        own = next(iter(store.store.stored["context"].values()))
        other = own | {"id": "other", "metadata": own["metadata"] | {"document_id": "other", "path": "gone.md"}}
        store.store.stored["context"]["other"] = other
        assert in_step().deleted == 0
        assert "other" in store.store.stored["context"]


class TestPassedOver:
    def test_hidden_ignored_and_other_files(self, root, in_step, stored):
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
        assert in_step().files == 1
        assert list(stored()) == ["docs/seen.MD"]

    def test_what_the_folder_itself_lies_in_does_not_matter(self, tmp_path):
        root = tmp_path / "node_modules" / ".hidden"
        root.mkdir(parents=True)
        (root / "a.md").write_text("text")
        folder = Folder(root, "docs", is_ignored=is_ignored, max_file_bytes=MAX_FILE_BYTES)
        assert list(folder.listing().files) == ["a.md"]

    def test_symbolic_links_out_of_the_folder_and_around_in_it(self, root, tmp_path, in_step):
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret.md").write_text("secret")
        (root / "loop").symlink_to(root)
        (root / "out").symlink_to(outside)
        (root / "secret.md").symlink_to(outside / "secret.md")
        assert in_step().files == 0

    def test_a_link_that_takes_a_files_place_is_not_read(self, root, tmp_path, open_sync, stored):
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

    def test_pipes_keep_nobody_waiting(self, root, open_sync):
        (root / "a.md").write_text("text")
        sync = open_sync()
        sync.look()
        (root / "a.md").unlink()
        os.mkfifo(root / "a.md")
        sync.work()
        assert (sync.indexed, sync.pending) == (0, 0)


class TestFailed:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"a\xffb", "is not UTF-8: byte 1 is wrong"),
            (b"a\0b", "is not a text: it contains NUL characters"),
            (b"x" * (MAX_FILE_BYTES + 1), "is larger than 10000 bytes"),
            (b"forbidden", "is refused by the model"),
        ],
    )
    def test_a_file_that_cannot_be_indexed_keeps_none_of_the_others(self, root, in_step, stored, content, reason):
        (root / "a.md").write_bytes(content)
        (root / "b.md").write_text("text")
        sync = in_step()
        assert sync.failed == {"a.md": reason}
        assert (list(stored()), sync.pending) == (["docs/b.md"], 0)

    def test_it_is_not_tried_again_until_it_changes(self, root, embedding, in_step):
        (root / "a.md").write_text("forbidden")
        sync = in_step()
        asked = []
        embedding._embed = lambda texts: asked.append(texts) or LetterEmbedding._embed(embedding, texts)
        sync.forget({"a.md"})
        os.utime(root / "a.md", (1, 1))
        sync.look()
        sync.work()
        assert (asked, list(sync.failed)) == ([], ["a.md"])
        (root / "a.md").write_text("allowed")
        sync.look()
        sync.work()
        assert (len(asked), sync.failed, sync.indexed) == (1, {}, 1)

    def test_the_version_before_stays(self, root, in_step, stored):
        (root / "a.md").write_text("good")
        in_step()
        (root / "a.md").write_bytes(b"\xff")
        assert in_step().deleted == 0
        assert stored()["docs/a.md"].text == "good"

    @pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
    def test_what_cannot_be_read_is_not_taken_for_deleted(self, root, in_step, stored):
        (root / "below").mkdir()
        for path in ("a.md", "below/b.md"):
            (root / path).write_text("text")
        in_step()
        (root / "a.md").chmod(0)
        (root / "below").chmod(0)
        try:
            sync = in_step()
        finally:
            (root / "below").chmod(0o700)
        assert sync.failed == {
            "a.md": "cannot be read: Permission denied",
            "below/": "cannot be listed: Permission denied",
        }
        assert sorted(stored()) == ["docs/a.md", "docs/below/b.md"]

    def test_what_was_below_a_folder_that_cannot_be_listed_stays(self, root, store, in_step):
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

    def test_names_of_all_kinds(self, root, in_step, stored):
        names = ["with spaces.md", "line\nbreak.md", "ünï ☃.md", "quote'\"\\.md", "-.md", "%2e.md"]
        for name in names:
            (root / name).write_text(name)
        (root / os.fsdecode(b"\xff.md")).write_text("text")
        sync = in_step()
        assert sorted(stored()) == sorted(f"docs/{name}" for name in names)
        assert sync.failed == {"?.md": "has a name that is not UTF-8"}
        assert in_step().indexed == 0


class TestDoubtfulFolders:
    def test_an_empty_folder_deletes_nothing_unless_it_may_be_empty(self, root, in_step, stored):
        (root / "a.md").write_text("text")
        in_step()
        (root / "a.md").unlink()
        with pytest.raises(FolderUnavailableError, match="1 of it are stored: nothing is deleted"):
            in_step()
        assert list(stored()) == ["docs/a.md"]
        assert in_step(may_be_empty=True).deleted == 1
        assert stored() == {}

    def test_a_folder_of_which_nothing_is_stored_may_be_empty(self, in_step):
        assert in_step().files == 0

    def test_a_missing_folder_deletes_nothing(self, root, open_sync, in_step, stored):
        (root / "a.md").write_text("text")
        sync = in_step()
        root.rename(root.with_name("away"))
        with pytest.raises(FolderUnavailableError, match="cannot be found"):
            sync.look()
        with pytest.raises(FolderUnavailableError, match="cannot be found"):
            open_sync()
        assert list(stored()) == ["docs/a.md"]

    def test_a_folder_that_is_replaced_while_files_are_deleted_deletes_no_more(self, root, in_step, stored):
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

    def test_a_file_that_vanishes_before_it_is_read_is_no_failure(self, root, open_sync):
        (root / "a.md").write_text("text")
        (root / "b.md").write_text("text")
        sync = open_sync()
        sync.look()
        (root / "a.md").unlink()
        sync.work()
        assert (sync.indexed, sync.files, sync.failed) == (1, 1, {})

    def test_a_file_that_is_written_while_it_is_read_is_read_again(self, root, in_step, stored):
        (root / "a.md").write_text("half")
        sync = in_step()
        (root / "a.md").write_text("half and the rest")
        sync.look()
        sync.work()
        assert stored()["docs/a.md"].text == "half and the rest"


@pytest.fixture
def watching(open_sync):
    """`watching(*steps)`: a watcher that runs through steps, each of which returns the paths that are told to have
    changed, and the reports it made."""
    clock = {"seconds": 0.0}

    def watching(*steps, sync=None, send=lambda report: None, listen=None):
        stop, told = threading.Event(), []
        steps_left = iter(steps)

        def changes(folders):
            yield set()
            for step in steps_left:
                yield step() or set()
            stop.set()

        watcher = Watcher(
            sync or open_sync(),
            Reporter(send, on_refused=stop.set, heartbeat_seconds=0.01, spacing_seconds=0.0),
            instance="here",
            collection="context",
            stop=stop,
            told=told.append,
            pauses=Pauses(0.001, 0.004),
            clock=lambda: NOW,
            seconds=lambda: clock["seconds"],
        )
        watcher.run(listen(stop) if listen else changes)
        return told

    watching.clock = clock
    return watching


class TestWatching:
    def test_changes_are_brought_in_as_they_are_told_of(self, root, watching, stored):
        (root / "a.md").write_text("one")

        def write():
            assert stored()["docs/a.md"].text == "one"
            (root / "a.md").write_text("two")
            (root / "b.md").write_text("new")
            return {"a.md", "b.md"}

        def delete():
            assert stored()["docs/a.md"].text == "two"
            (root / "a.md").unlink()
            return {"a.md"}

        told = watching(write, delete)
        assert list(stored()) == ["docs/b.md"]
        assert (told[0].state, told[-1].state) == (SCANNING, STOPPED)
        assert (told[-1].indexed, told[-1].deleted, told[-1].files, told[-1].pending) == (3, 1, 1, 0)
        assert told[-1].last_change == told[-1].started_at == "2026-11-22T08:30:00.000Z"

    def test_a_change_that_no_signature_tells_is_read_because_it_was_told_of(self, root, watching, stored):
        (root / "a.md").write_text("one")

        def write():
            before = (root / "a.md").stat()
            with (root / "a.md").open("r+") as file:
                file.write("two")
            os.utime(root / "a.md", ns=(before.st_atime_ns, before.st_mtime_ns))
            return {"a.md"}

        watching(write)
        assert stored()["docs/a.md"].text == "two"

    def test_a_folder_that_comes_later_is_listened_to(self, root, open_sync, watching, stored):
        heard = []

        def listen(stop):
            def changes(folders):
                heard.append(folders)
                yield set()
                if len(heard) == 1:
                    (root / "below").mkdir()
                    (root / "below" / "a.md").write_text("one")
                    yield {"below"}
                stop.set()

            return changes

        watching(listen=listen)
        assert heard == [{""}, {"", "below/"}]
        assert list(stored()) == ["docs/below/a.md"]

    def test_everything_is_compared_again_after_a_while_whatever_is_told(self, root, watching, stored):
        (root / "a.md").write_text("one")

        def wait():
            (root / "b.md").write_text("nobody told")
            watching.clock["seconds"] += RESCAN_SECONDS

        watching(wait, lambda: None)
        assert sorted(stored()) == ["docs/a.md", "docs/b.md"]

    @pytest.mark.parametrize("part", ["store", "embedding"])
    def test_what_is_away_is_waited_for(self, root, request, watching, stored, part):
        away = request.getfixturevalue(part)
        (root / "a.md").write_text("one")
        attempts = []

        def send(report):
            if report.state == RETRYING:
                attempts.append(report)
                away.is_away = len(attempts) < 2

        def leave():
            away.is_away = True
            (root / "a.md").write_text("two")
            return {"a.md"}

        told = watching(leave, send=send)
        assert stored()["docs/a.md"].text == "two"
        assert attempts[0].reason == f"The {'service is' if part == 'store' else 'embeddings are'} away"
        assert attempts[0].failing_since == "2026-11-22T08:30:00.000Z"
        last = next(report for report in reversed(told) if report.state == WATCHING)
        assert (last.reason, last.failing_since, last.pending) == (None, None, 0)

    def test_a_file_that_always_fails_keeps_no_other_waiting(self, root, watching, stored):
        (root / "a.md").write_text("poison")
        (root / "b.md").write_text("text")

        def send(report):
            if report.state == RETRYING and report.indexed:
                (root / "a.md").write_text("cured")

        watching(send=send)
        assert sorted(stored()) == ["docs/a.md", "docs/b.md"]

    def test_an_empty_folder_is_waited_for(self, root, watching, stored):
        (root / "a.md").write_text("one")

        def send(report):
            if report.state == RETRYING:
                (root / "b.md").write_text("mounted again")

        def unmount():
            (root / "a.md").unlink()
            return {"a.md"}

        told = watching(unmount, send=send)
        assert list(stored()) == ["docs/b.md"]
        assert any("has no files to index" in (report.reason or "") for report in told)

    def test_deaf_it_is_still_in_sync_now_and_then(self, root, watching, stored):
        (root / "a.md").write_text("one")

        def listen(stop):
            def changes(folders):
                if stored():
                    stop.set()
                raise UnavailableError("No more watches")
                yield set()

            return changes

        told = watching(listen=listen)
        assert list(stored()) == ["docs/a.md"]
        assert told[-1].reason == "No more watches"

    def test_it_stops_between_two_files(self, root, open_sync, stored):
        for name in ("a.md", "b.md"):
            (root / name).write_text(name)
        sync = open_sync()
        sync.look()
        sync.work(lambda: sync.indexed == 1)
        assert (len(stored()), sync.pending) == (1, 1)

    def test_another_model_is_no_use_waiting_for(self, root, open_sync, in_step, watching):
        (root / "a.md").write_text("one")
        in_step()
        (root / "a.md").write_text("two")
        with pytest.raises(ConflictError, match="embedded with 'letters-1', not with 'letters-2'"):
            watching(sync=open_sync(embedding=Embedding("letters-2")))


class TestOneOfAName:
    """`send` is answered as the service answers: 409 while another instance reports."""

    def busy(self, reported_at):
        return ConflictError("Watcher 'docs' is running", code="watcher_is_running", reported_at=reported_at)

    def test_one_that_reports_again_is_alive(self, root, watching, stored):
        (root / "a.md").write_text("one")
        times = iter(range(10))

        def send(report):
            raise self.busy(f"2026-11-22T08:30:0{next(times)}.000Z")

        with pytest.raises(ConflictError, match="is running"):
            watching(send=send)
        assert next(times) == 2
        assert stored() == {}

    def test_one_that_was_killed_is_waited_for(self, root, watching, stored):
        (root / "a.md").write_text("one")
        left = [self.busy("2026-11-22T08:30:00.000Z")] * 3

        def send(report):
            if left:
                raise left.pop()

        watching(send=send)
        assert list(stored()) == ["docs/a.md"]

    def test_who_lost_the_name_stops(self, root, open_sync):
        is_taken, refused = threading.Event(), threading.Event()

        def send(report):
            if is_taken.is_set():
                raise self.busy("2026-11-22T08:30:00.000Z")

        def changes(folders):
            yield set()
            is_taken.set()
            assert refused.wait(20)

        reporter = Reporter(send, on_refused=refused.set, heartbeat_seconds=0.01, spacing_seconds=0.0)
        watcher = Watcher(open_sync(), reporter, instance="here", collection="context", stop=refused)
        with pytest.raises(ConflictError, match="is running"):
            watcher.run(changes)


class TestBursts:
    def settle(self, *ticks, quiet_seconds=1.0):
        """What is told at each (second, paths)."""
        now = {}

        def changes():
            for second, paths in ticks:
                now["seconds"] = second
                yield set(paths)

        return list(settled(changes(), quiet_seconds=quiet_seconds, seconds=lambda: now["seconds"]))

    def test_a_burst_is_told_once_when_it_is_over(self):
        told = self.settle((0.0, "a"), (0.5, "a"), (1.0, "b"), (1.5, ""), (2.0, ""), (2.5, ""))
        assert told == [set(), set(), set(), set(), {"a", "b"}, set()]

    def test_one_that_does_not_end_is_told_of_now_and_then(self):
        ticks = [(second / 2, "a") for second in range(4 * LONGEST_BURST + 2)]
        assert [paths for paths in self.settle(*ticks) if paths] == [{"a"}] * 2

    def test_pauses_grow_to_the_longest(self):
        pauses = Pauses()
        assert [pauses.next_seconds() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
        pauses.reset()
        assert pauses.next_seconds() == 1
