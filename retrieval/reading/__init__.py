"""Reading the files of documents: which kinds there are, and the text of each, read in a process with limits."""

from retrieval.reading.kinds import KINDS, Kind, kind_named, kind_of, kind_of_file
from retrieval.reading.read_document import Mark, ReadDocument, UnreadableError
from retrieval.reading.reader import DocumentReader, ReadingLimits

__all__ = [
    "KINDS",
    "DocumentReader",
    "Kind",
    "Mark",
    "ReadDocument",
    "ReadingLimits",
    "UnreadableError",
    "kind_named",
    "kind_of",
    "kind_of_file",
]
