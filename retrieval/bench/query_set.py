"""Query sets in BEIR's layout: `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv` in a folder, or the texts of the
last two, about documents that are stored already."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from schemas.contracts.judgements import MAX_GIVEN_CHARACTERS, MAX_GIVEN_QUESTIONS, InvalidQuerySetError, QuerySetFiles
from schemas.contracts.search import InvalidQueryError, check_query
from schemas.errors import InvalidInputError

CORPUS, QUERIES, JUDGEMENTS = "corpus.jsonl", "queries.jsonl", "qrels/test.tsv"
QUERY_ID, DOCUMENT_ID, SCORE = HEADER = ("query-id", "corpus-id", "score")
MOST_QUOTED = 100
"""The most characters of an id that an error repeats."""
_SCORE = re.compile(r"[+-]?[0-9]{1,4}")


@dataclass(frozen=True, slots=True)
class Query:
    """A query; `judgements` maps ids of documents to scores: above 0 is relevant, an unlisted document is not."""

    id: str
    text: str
    judgements: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class QuerySet:
    """A query set; `corpus` is the file of its documents. Queries without a relevant document are left out."""

    name: str
    corpus: Path
    queries: tuple[Query, ...]


def read_query_set(folder: Path) -> QuerySet:
    """Read a query set. Raises InvalidInputError naming the file, and the line, that is missing or wrong."""
    for part in (CORPUS, QUERIES, JUDGEMENTS):
        if not (folder / part).is_file():
            raise InvalidInputError(f"'{folder}' is no query set: it has no {part}")
    queries = _queries(_text_of(folder / QUERIES), _text_of(folder / JUDGEMENTS), f"{folder}/")
    if not queries:
        raise InvalidInputError(f"'{folder}' is no query set: {JUDGEMENTS} finds nothing relevant to any query")
    return QuerySet(folder.resolve().name, folder / CORPUS, queries)


def queries_in(files: QuerySetFiles) -> tuple[Query, ...]:
    """Return the queries of the texts of a query set. Raises InvalidQuerySetError naming the file, the line and the
    field that is wrong, and for longer texts or more queries than one measurement may have."""
    for part, text in ((QUERIES, files.queries), (JUDGEMENTS, files.qrels)):
        if len(text) > MAX_GIVEN_CHARACTERS:
            raise InvalidQuerySetError(
                f"{part} has {len(text):,} characters, and may have {MAX_GIVEN_CHARACTERS:,} at most: leave out the "
                "lines of queries that are not asked",
                file=part,
                limit=MAX_GIVEN_CHARACTERS,
            )
    queries = _queries(files.queries, files.qrels)
    if not queries:
        raise InvalidQuerySetError(f"{JUDGEMENTS} finds nothing relevant to any query", file=JUDGEMENTS)
    if len(queries) > MAX_GIVEN_QUESTIONS:
        raise InvalidQuerySetError(
            f"{len(queries):,} queries have something relevant, and one measurement asks {MAX_GIVEN_QUESTIONS:,} at "
            "most: leave some out",
            file=JUDGEMENTS,
            limit=MAX_GIVEN_QUESTIONS,
        )
    return queries


def _queries(queries: str, judgements: str, folder: str = "") -> tuple[Query, ...]:
    """Return the queries that have a relevant document."""
    texts = _texts(folder + QUERIES, _numbered(queries))
    judged = _judgements(folder + JUDGEMENTS, _numbered(judgements), texts)
    return tuple(
        Query(query_id, text, judged[query_id])
        for query_id, text in texts.items()
        if any(score > 0 for score in judged.get(query_id, {}).values())
    )


def _texts(name: str, lines: Iterable[tuple[int, str]]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for number, line in lines:
        try:
            record = orjson.loads(line)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            record = None
        if not isinstance(record, dict):
            raise _wrong(name, number, None, "is not a JSON object with '_id' and 'text'")
        for field in ("_id", "text"):
            if field not in record:
                raise _wrong(name, number, field, f"is not a JSON object with '_id' and 'text': it has no '{field}'")
        query_id = record["_id"]
        if not isinstance(query_id, str) or not query_id or query_id in texts:
            raise _wrong(name, number, "_id", "has an '_id' that is no string, is empty or was used before")
        try:
            texts[query_id] = check_query(record["text"])
        except InvalidQueryError as error:
            raise _wrong(name, number, "text", error.message) from None
    return texts


def _judgements(name: str, lines: Iterable[tuple[int, str]], texts: Mapping[str, str]) -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = {}
    for number, line in lines:
        columns = tuple(line.rstrip("\r\n").split("\t"))
        if number == 1 and columns == HEADER:
            continue
        if len(columns) != len(HEADER):
            raise _wrong(name, number, None, f"{_COLUMNS}: it has {len(columns)} columns")
        query_id, document_id, score = columns
        if not document_id:
            raise _wrong(name, number, DOCUMENT_ID, f"{_COLUMNS}: its {DOCUMENT_ID} is empty")
        if not _SCORE.fullmatch(score):
            raise _wrong(name, number, SCORE, f"{_COLUMNS}: its {SCORE} is no whole number of at most four digits")
        if query_id not in texts:
            sentence = f"judges query '{query_id[:MOST_QUOTED]}', which {QUERIES} has not"
            raise _wrong(name, number, QUERY_ID, sentence)
        judged.setdefault(query_id, {})[document_id] = int(score)
    return judged


_COLUMNS = "is not a query's id, a document's id and a whole number, with tabs"


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} cannot be read: {error}") from None


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    lines = io.StringIO(text.removeprefix("\ufeff"), newline=None)
    return ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _wrong(name: str, number: int, field: str | None, what: str) -> InvalidQuerySetError:
    details = {} if field is None else {"field": field}
    return InvalidQuerySetError(f"{name}:{number}: {what}", file=name, line=number, **details)
