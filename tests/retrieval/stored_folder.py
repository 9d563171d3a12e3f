"""Store the files of a folder as the service does, without one."""

from retrieval.ingest.collection_writer import CollectionWriter
from retrieval.ingest.embedding_texts import NOT_EMBEDDED
from retrieval.ingest.files import GivenFile, ingest_file
from retrieval.ingest.loading import RecordLoader
from retrieval.ingest.profiles import chunking_of
from retrieval.ingest.sources import SourceError
from retrieval.ingest.walk import walk
from retrieval.reading import DocumentReader
from schemas.settings import RetrievalSettings


def store_folder(path, provider, embedding, *, collection="docs"):
    """Return the report of storing all files."""
    found = walk(path)
    chunking = chunking_of(RetrievalSettings(), embedding)
    loader = RecordLoader(CollectionWriter(provider, collection, lambda info: embedding))
    report = loader.report
    with DocumentReader() as reader:
        for each in found.files:
            source = f"{found.folder}/{each.path_below}"
            if each.kind.is_records:
                loader.load(each, source, each.path_below, lambda at: None)
                continue
            try:
                file = GivenFile(source, each.path, each.kind)
                done = ingest_file(loader._writer, file, reader=reader, chunking=chunking)
            except NOT_EMBEDDED as error:
                report.errors.append(SourceError(source, None, error.message, error.code))
            else:
                report.chunks += done.chunks
                report.created += done.created
                report.updated += done.updated
                report.unchanged += done.unchanged
    return report
