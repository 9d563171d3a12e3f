"""Reading the files of documents: which kinds there are, and the text of each, read in a process with limits."""

from retrieval.parsing.parsed import EMPTY, TOO_LARGE, UNREADABLE, UNSUPPORTED_KIND, Parsed, UnreadableError
from retrieval.reading.kinds import KINDS, Kind, kind_named, kind_of, kind_of_file, kinds_table
from retrieval.reading.not_read import SECRET, SECRETS, instead_of, may_hold_secrets
from retrieval.reading.reader import DocumentReader, ReadingLimits
from retrieval.reading.scans import Languages, OnPage

__all__ = [
    "EMPTY",
    "KINDS",
    "SECRET",
    "SECRETS",
    "TOO_LARGE",
    "UNREADABLE",
    "UNSUPPORTED_KIND",
    "DocumentReader",
    "Kind",
    "Languages",
    "OnPage",
    "Parsed",
    "ReadingLimits",
    "UnreadableError",
    "instead_of",
    "kind_named",
    "kind_of",
    "kind_of_file",
    "kinds_table",
    "may_hold_secrets",
]
