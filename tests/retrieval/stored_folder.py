"""Store single files as the work on jobs does, without a job."""

from retrieval.ingest.files import source_document, unchanged
from retrieval.ingest.ingestion import ingest_document
from retrieval.jobs.record_files import RecordFile


def ingest_file(writer, file, *, reader, chunking, **options):
    """Bring a file's document up to date, as the work on jobs does."""
    if (known := unchanged(writer, file, chunking)) is not None:
        return known
    read = reader.read(file.content, file.kind, name=file.name)
    return ingest_document(writer, source_document(file, read, chunking=chunking), **options)


def store_records(writer, file):
    """Return what became of the lines of a file of records."""
    work = RecordFile(
        writer, file, keeps=False, check=lambda: None, wrote=lambda: None, advance=lambda read_bytes: None
    )
    with file.content.open("rb") as lines:
        work.store(lines)
    return work
