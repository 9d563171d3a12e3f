"""Store the files of a folder as the service does, without one."""

from contextlib import closing
from types import SimpleNamespace

from retrieval.ingest.collection_writer import CollectionWriter
from retrieval.ingest.embedding_texts import NOT_EMBEDDED
from retrieval.ingest.files import GivenFile, source_document, unchanged
from retrieval.ingest.ingestion import ingest_document
from retrieval.ingest.profiles import chunking_of
from retrieval.ingest.walk import NotTaken, walk
from retrieval.jobs.record_files import RecordFile
from retrieval.reading import DocumentReader
from schemas.settings import RetrievalSettings


def store_folder(path, provider, embedding, *, collection="docs"):
    """Return the report of storing all files; what is made of records counts as created."""
    found = walk(path)
    chunking = chunking_of(RetrievalSettings(), embedding)
    writer = CollectionWriter(provider, collection, lambda info: embedding)
    report = SimpleNamespace(chunks=0, created=0, updated=0, unchanged=0, errors=[])
    with closing(DocumentReader()) as reader:
        for each in found.files:
            source = f"{found.folder}/{each.path_below}"
            file = GivenFile(source, each.path, each.kind)
            if each.kind.is_records:
                done = store_records(writer, file)
                report.created += done.written
                report.unchanged += done.records - done.written
                report.errors += [NotTaken(f"{source}:{line}", "", message) for line, message in done.named]
                continue
            try:
                done = ingest_file(writer, file, reader=reader, chunking=chunking)
            except NOT_EMBEDDED as error:
                report.errors.append(NotTaken(source, error.code, error.message))
            else:
                report.chunks += done.chunks
                report.created += done.created
                report.updated += done.updated
                report.unchanged += done.unchanged
    return report


def ingest_file(writer, file, *, reader, chunking, **options):
    """Bring a file's document up to date, as the work on jobs does."""
    if (known := unchanged(writer, file, chunking)) is not None:
        return known
    return ingest_document(writer, source_document(file, reader=reader, chunking=chunking), **options)


def store_records(writer, file):
    """Return what became of the lines of a file of records."""
    work = RecordFile(
        writer, file, keeps=False, check=lambda: None, wrote=lambda: None, advance=lambda read_bytes: None
    )
    with file.content.open("rb") as lines:
        work.store(lines)
    return work
