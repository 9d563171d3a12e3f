"""Methods about what people judged relevant, and about how well the search finds it."""

from __future__ import annotations

from typing import Literal, TypedDict

from rag_wrapper_client.exchanges import Exchange, ask, ask_bytes, at, change, get, given, repeatable
from rag_wrapper_client.operations import listing, operation
from rag_wrapper_client.pages import Listing, paged
from rag_wrapper_client.wire.quality import (
    Bench,
    ForgetJudgementAnswer,
    Judgement,
    ListBenchesAnswer,
    MeasuredBench,
)


class QuerySet(TypedDict):
    """A query set in BEIR's layout, as the texts of its files."""

    queries: str
    qrels: str


class QualityMethods:
    @listing
    def judgements(
        self, *, collection: str | None = None, question: str | None = None, page_size: int = 1000
    ) -> Listing[Judgement]:
        """Iterate over one's own judgements, the latest first."""
        return paged(
            lambda cursor: get(
                "/api/judgements", collection=collection, question=question, limit=page_size, cursor=cursor
            ),
            "judgements",
        )

    @operation
    def judge(self, question: str, *, collection: str, document_id: str, grade: Literal[0, 1]) -> Exchange[Judgement]:
        """Keep whether a document, named by its `doc_id`, is relevant to a question. A later judgement counts."""
        body = {"question": question, "collection": collection, "document_id": document_id, "grade": grade}
        return ask(repeatable(change("POST", "/api/judgements", body)))

    @operation
    def forget_judgement(self, judgement_id: str) -> Exchange[ForgetJudgementAnswer]:
        """Forget a judgement."""
        return ask(change("DELETE", at("/api/judgements/{}", judgement_id)))

    @operation
    def query_set(self, collection: str) -> Exchange[bytes]:
        """Return one's own judgements about a collection as a query set, a ZIP file."""
        return ask_bytes(get("/api/query-set", collection=collection))

    @operation
    def benches(self) -> Exchange[ListBenchesAnswer]:
        """List one's own measurements, the latest first."""
        return ask(get("/api/bench"))

    @operation
    def start_bench(self, collection: str, *, query_set: QuerySet | None = None) -> Exchange[Bench]:
        """Begin to measure how well the search of a collection finds what was judged relevant."""
        return ask(change("POST", "/api/bench", given({"collection": collection, "query_set": query_set})))

    @operation
    def bench(self, bench_id: str) -> Exchange[MeasuredBench]:
        """Return a measurement, with the figures there are."""
        return ask(get(at("/api/bench/{}", bench_id)))

    @operation
    def end_bench(self, bench_id: str) -> Exchange[Bench]:
        """End a measurement, or forget one that has ended."""
        return ask(change("DELETE", at("/api/bench/{}", bench_id)))
