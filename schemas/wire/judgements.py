"""Judgements and measurements on the wire, and judgements as a query set in BEIR's layout."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson
from marshmallow import fields, post_load

from schemas.contracts.judgements import GRADES, Judgement, KnownBench, QuerySetFiles, Verdict
from schemas.contracts.search import InvalidQueryError, check_query
from schemas.wire.body import Body, ExactBody
from schemas.wire.checked_fields import CollectionName, Words
from schemas.wire.fields import Count, Text

MAX_PAGE, PAGE_SIZE = 1_000, 100
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of the files of a query set, so that the same judgements are the same bytes."""
Json = dict[str, Any]


class Question(Text):
    """A text that can be searched with."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        try:
            return check_query(super()._deserialize(value, attr, data, **options).strip())
        except InvalidQueryError as error:
            error.details["field"] = attr or "question"
            raise


class Grade(Count):
    def __init__(self, **options: Any) -> None:
        super().__init__(least=GRADES[0], most=GRADES[-1], **options)


class NewJudgement(Body):
    question = Question(required=True, error_messages={"required": "is required"})
    collection = CollectionName(required=True, error_messages={"required": "is required"})
    document_id = Words(required=True, error_messages={"required": "is required"})
    grade = Grade(required=True, error_messages={"required": "is required"})


class JudgementsPage(Body):
    collection = Text(load_default=None)
    question = Text(load_default=None)
    limit = Count(least=1, most=MAX_PAGE, capped=True, in_text=True, load_default=PAGE_SIZE)
    cursor = Text(load_default=None)


class OfCollection(Body):
    """The collection whose judgements are meant."""

    collection = CollectionName(required=True, error_messages={"required": "is required"})


class GivenQuerySet(ExactBody):
    queries = Text(required=True, error_messages={"required": "is required"})
    qrels = Text(required=True, error_messages={"required": "is required"})

    @post_load
    def _to_files(self, loaded: Json, **_: Any) -> QuerySetFiles:
        return QuerySetFiles(**loaded)


class NewBench(Body):
    collection = CollectionName(required=True, error_messages={"required": "is required"})
    query_set = fields.Nested(GivenQuerySet, load_default=None)


NEW_JUDGEMENT, JUDGEMENTS_PAGE, OF_COLLECTION, NEW_BENCH = NewJudgement(), JudgementsPage(), OfCollection(), NewBench()


def verdict(asked: Json) -> Verdict:
    return Verdict(**asked)


def judgement_answer(found: Judgement) -> Json:
    return {
        "id": found.id,
        "question": found.verdict.question,
        "collection": found.verdict.collection,
        "document_id": found.verdict.document_id,
        "grade": found.verdict.grade,
        "created_at": found.created_at,
        "owner": found.owner,
    }


def judgements_page(found: Iterable[Judgement], total: int, next_cursor: str | None) -> Json:
    return {"judgements": [judgement_answer(each) for each in found], "total": total, "next_cursor": next_cursor}


def forgotten_judgement(judgement_id: str) -> Json:
    return {"status": "deleted", "id": judgement_id}


def bench_answer(found: KnownBench) -> Json:
    result = found.result or {"runs": [], "questions": []}
    return bench_summary(found) | {"runs": result["runs"], "questions": result["questions"]}


def bench_summary(found: KnownBench) -> Json:
    return {
        "id": found.id,
        "collection": found.collection,
        "status": found.status,
        "created_at": _time(found.created_at_ms),
        "finished_at": None if found.finished_at_ms is None else _time(found.finished_at_ms),
        "judged": found.questions,
        "progress": {"searches": found.searches, "done": found.done},
        "message": found.message,
        "owner": found.owner,
    }


def _time(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1e3, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def benches_answer(found: Iterable[KnownBench]) -> Json:
    return {"benches": [bench_summary(each) for each in found]}


class JudgedQuestion(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def judgements(self) -> Mapping[str, int]: ...


def query_set_archive(questions: Iterable[JudgedQuestion], documents: Iterable[tuple[str, str, str]]) -> bytes:
    """Return a ZIP archive of a query set in BEIR's layout; documents are (id, title, text)."""
    corpus, queries, lines = bytearray(), bytearray(), ["query-id\tcorpus-id\tscore"]
    for document_id, title, text in documents:
        corpus += orjson.dumps({"_id": document_id, "title": title, "text": text}) + b"\n"
    for question in questions:
        queries += orjson.dumps({"_id": question.id, "text": question.text}) + b"\n"
        lines += [
            f"{question.id}\t{document_id}\t{grade}"
            for document_id, grade in question.judgements.items()
            if document_id.isprintable()  # one with a tab or a line's end in it would be something else in this file
        ]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (
            ("corpus.jsonl", bytes(corpus)),
            ("queries.jsonl", bytes(queries)),
            ("qrels/test.tsv", ("\n".join(lines) + "\n").encode()),
        ):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED)
    return content.getvalue()
