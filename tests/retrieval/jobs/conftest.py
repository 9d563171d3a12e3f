"""All that works on jobs, with an embedding model that tests can stop, break and watch."""

import threading
from types import SimpleNamespace

import pytest

from retrieval.documents.originals import Originals
from retrieval.documents.stored_documents import StoredDocuments
from retrieval.jobs.ingesting import JobWork
from retrieval.jobs.spool import Spool
from retrieval.jobs.stored_jobs import StoredJobs
from retrieval.jobs.uploads import Uploads
from retrieval.reading import DocumentReader
from retrieval.text_collections import TextCollections
from schemas.access.callers import ANYBODY
from schemas.access.owners import Asker
from schemas.contracts.jobs import Wanted
from schemas.settings import RetrievalSettings


class Record:
    """What is recorded of files: the chunks of each."""

    def __init__(self):
        self.stored_chunks = []
        self.check = lambda job: None

    def stored(self, job, chunks):
        self.stored_chunks.append((job.wanted.collection, chunks))


@pytest.fixture
def parts(app, connections, choice_of, embeddings, collection, tmp_path):
    """All that works on jobs, in a data directory of its own; `embed` may be replaced, and is asked for each batch."""
    made = SimpleNamespace(stopping=threading.Event(), embed=lambda connection, texts: connection.embed(texts))
    made.spool = Spool(tmp_path)
    made.now = 1_790_000_000.0
    made.jobs = StoredJobs(app.extensions["rag.service"].catalog, made.spool.home, clock=lambda: made.now)
    made.texts = TextCollections(connections, choice_of(collection))
    made.originals = Originals(tmp_path / "originals", keeps=True)
    made.documents = StoredDocuments(made.texts, made.originals)
    made.batches, made.job_ids = [], []
    made.record = Record()
    made.caller_of = lambda: ANYBODY
    made.split = lambda chunking, syntax, text: chunking.splitter(syntax)(text)

    def embed(connection, texts):
        made.batches.append(len(texts))
        return made.embed(connection, texts)

    made.work = JobWork(
        *(made.jobs, made.spool, made.texts, made.originals, DocumentReader(), RetrievalSettings()),
        embed=embed,
        split=lambda chunking, syntax, text: made.split(chunking, syntax, text),
        stopping=made.stopping,
        check_record=lambda job: made.record.check(job),
        record=lambda job, chunks: made.record.stored(job, chunks),
        caller_of=lambda job: made.caller_of(),
    )

    def upload(*files, into=collection, owner="", **wanted):
        uploads = Uploads(made.jobs, made.spool, max_file_bytes=1 << 20, id_of=made.texts.id_of)
        with uploads.begin(asker=Asker(owner)) as arriving:
            for name, content in files:
                arriving.take(name, "", [content if isinstance(content, bytes) else content.encode()])
            made.job_ids.append(arriving.finish(Wanted(into, **wanted), asker=Asker(owner)).job_id)
        return made.job_ids[-1]

    def run():
        """Work on what is due, and return the newest job."""
        made.outcomes = []
        while due := made.jobs.due():
            made.outcomes.append(made.work.run(due[0])[0])
        return made.jobs.page(asker=Asker(), limit=1)[0][0]

    def ingest(*files, **wanted):
        upload(*files, **wanted)
        return run()

    def while_embedding(do):
        """Have `do()` called before each batch is embedded."""
        made.embed = lambda connection, texts: (do(), connection.embed(texts))[1]

    made.upload, made.run, made.ingest = upload, run, ingest
    made.collection, made.while_embedding = collection, while_embedding
    yield made
    made.jobs.erase(made.job_ids)
    for each in made.texts.corpus.open().existing([collection, f"{collection}-2"]):
        app.extensions["rag.service"].store.delete_collection(each.name)
