"""Query sets in BEIR's layout: `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv` in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from schemas.contracts.search import InvalidQueryError, check_query
from schemas.errors import InvalidInputError

CORPUS, QUERIES, JUDGEMENTS = "corpus.jsonl", "queries.jsonl", "qrels/test.tsv"
HEADER = ("query-id", "corpus-id", "score")


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
    texts = _read_texts(folder / QUERIES)
    judged = _read_judgements(folder / JUDGEMENTS, texts)
    queries = tuple(
        Query(query_id, text, judged[query_id])
        for query_id, text in texts.items()
        if any(score > 0 for score in judged.get(query_id, {}).values())
    )
    if not queries:
        raise InvalidInputError(f"'{folder}' is no query set: {JUDGEMENTS} finds nothing relevant to any query")
    return QuerySet(folder.resolve().name, folder / CORPUS, queries)


def _read_texts(path: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    for number, line in _lines(path):
        try:
            record = orjson.loads(line)
            query_id, text = record["_id"], record["text"]
        except (orjson.JSONDecodeError, TypeError, KeyError):
            raise _wrong(path, number, "is not a JSON object with '_id' and 'text'") from None
        if not isinstance(query_id, str) or query_id in texts:
            raise _wrong(path, number, "has an '_id' that is no string or was used before")
        try:
            texts[query_id] = check_query(text)
        except InvalidQueryError as error:
            raise _wrong(path, number, error.message) from None
    return texts


def _read_judgements(path: Path, texts: Mapping[str, str]) -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = {}
    for number, line in _lines(path):
        columns = tuple(line.rstrip("\r\n").split("\t"))
        if number == 1 and columns == HEADER:
            continue
        try:
            query_id, document_id, score = columns
            judged.setdefault(query_id, {})[document_id] = int(score)
        except ValueError:
            raise _wrong(path, number, "is not a query's id, a document's id and a whole number, with tabs") from None
        if query_id not in texts:
            raise _wrong(path, number, f"judges query '{query_id}', which {QUERIES} has not")
    return judged


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, line
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} cannot be read: {error}") from None


def _wrong(path: Path, number: int, what: str) -> InvalidInputError:
    return InvalidInputError(f"{path}:{number}: {what}", line=number)
