"""A folder, what the store holds of it, and the watcher that keeps both in sync."""

import threading
from datetime import UTC, datetime

import pytest

from retrieval.ingest.collection_writer import CollectionWriter
from retrieval.ingest.profiles import chunking_of
from retrieval.reading import DocumentReader
from retrieval.watching.events import is_ignored
from retrieval.watching.folder import Folder
from retrieval.watching.pauses import Pauses
from retrieval.watching.reporting import Reporter
from retrieval.watching.syncing import FolderSync
from retrieval.watching.watcher import Watcher
from schemas.errors import InvalidInputError, UnavailableError
from schemas.settings import RetrievalSettings
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.retrieval.model_store import ModelProvider, document_of

MAX_FILE_BYTES = 10_000
NOW = datetime(2026, 11, 22, 8, 30, tzinfo=UTC)


class Store(ModelProvider):
    """A store that can be made unavailable."""

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


def compare(sync):
    """Bring what has changed in the folder into the store."""
    sync.look()
    sync.work()


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
    """`open_sync()` gives the folder as a process that has just started sees it."""

    def open_sync(*, embedding=embedding, **options):
        folder = Folder(root, "docs", is_ignored=is_ignored, max_file_bytes=MAX_FILE_BYTES)
        return FolderSync(
            folder,
            lambda: CollectionWriter(store, "context", lambda _: embedding),
            reader=DocumentReader(),
            chunking=chunking_of(RetrievalSettings(), embedding),
            clock=lambda: NOW,
            **options,
        )

    return open_sync


@pytest.fixture
def in_step(open_sync):
    """`in_step()` brings the store in sync with the folder, as a process that starts now does, and returns the sync."""

    def in_step(**options):
        sync = open_sync(**options)
        sync.read_stored()
        compare(sync)
        return sync

    return in_step


@pytest.fixture
def stored(store):
    """`stored()` returns the first chunk of each source in the collection."""

    def stored():
        first = [each for each in store.store.stored.get("context", {}).values() if not each["metadata"]["chunk_index"]]
        return {each["metadata"]["source"]: document_of(each) for each in first}

    return stored


@pytest.fixture
def watching(open_sync):
    """`watching(*steps)` runs a watcher through steps, each of which returns the paths reported as changed, and returns
    the reports that the watcher made."""
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
