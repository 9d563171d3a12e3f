"""Fit the curve that turns a model's cosines into relevance, and show how well it tells questions apart.

    python -m benchmarks.relevance.calibration path/to/cranfield [more BEIR folders] [--out calibration.json]

Collections are the BEIR folders and this project's documentation. Each question is asked of the collection that answers
it and of all others, which have nothing for it; nonsense is asked of all. What counts is the best hit of each: is it
from the collection that answers the question? Nothing is fitted to the questions of `answerable.jsonl` and
`nonsense.jsonl`; the last table says how many of them have a hit at a threshold.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from interfaces.commands.validate import embedding_connection
from providers.calibration import LogisticCurve
from providers.embeddings.base import EmbeddingProvider
from retrieval.bench.query_set import read_query_set
from retrieval.ingest.drafts import Draft, draft_of_record, drafts_of, text_to_embed
from retrieval.ingest.files import GivenFile, source_document
from retrieval.ingest.profiles import chunking_of
from retrieval.ingest.records import Record, read_records
from retrieval.ingest.walk import walk
from retrieval.reading import DocumentReader
from retrieval.search.relevance import CANDIDATES, WordsFound
from schemas.records import Vector
from schemas.settings import RetrievalSettings

FOLDER = Path(__file__).parent
DOCUMENTATION = FOLDER.parent.parent / "docs"
MIN_RELEVANCE = 0.8
"""In the flat middle of the last table: from 0.7 to 0.9 hardly a question more or less has a hit."""
Question = tuple[str, str | None]
"""(the question, the name of the collection that answers it: None for nonsense)."""


@dataclass(frozen=True, slots=True)
class TextCollection:
    """A collection in memory: what the model reads of its chunks, and their vectors of length 1."""

    name: str
    texts: list[str]
    vectors: Vector


@dataclass(frozen=True, slots=True)
class BestHits:
    """The best hits of questions: cosine, share of the question's words found, and whether the collection answers the
    question. Float64 and bool, each of shape (questions x collections,)."""

    cosines: Vector
    words_found: Vector
    answers: Any

    def relevances(self, curve: LogisticCurve) -> Vector:
        pairs = zip(self.cosines.tolist(), self.words_found.tolist(), strict=True)
        return np.array([curve.relevance(cosine, words_found) for cosine, words_found in pairs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path, nargs="+", help="folders in BEIR's layout")
    parser.add_argument("--embedding-provider", default="minilm")
    parser.add_argument("--embedding-url")
    parser.add_argument("--embedding-model")
    parser.add_argument("--out", type=Path, help="write the calibration to this file")
    given = parser.parse_args()
    model = {"url": given.embedding_url, "model": given.embedding_model}
    with embedding_connection(given.embedding_provider, model) as embedding:
        collections = [documentation(embedding), *(read_collection(folder, embedding) for folder in given.sets)]
        questions = [*own_questions("-for-fitting"), *(each for folder in given.sets for each in judged(folder))]
        fitted = best_hits(questions, collections, embedding)
        curve = fit(fitted)
        held_out = best_hits(own_questions(), collections[:1], embedding)
    show(curve, fitted, held_out)
    if given.out is not None:
        content = described(curve, embedding.model, given.sets, fitted)
        given.out.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def documentation(embedding: EmbeddingProvider) -> TextCollection:
    """Return the project's documentation, split and read by the model as `rag-wrapper load docs` does."""
    found = walk(DOCUMENTATION)
    chunking = chunking_of(RetrievalSettings(), embedding)
    drafts: list[Draft] = []
    with closing(DocumentReader()) as reader:
        for each in found.files:
            file = GivenFile(f"{found.folder}/{each.path_below}", each.path, each.kind)
            read = reader.read(file.content, file.kind, name=file.name)
            drafts += drafts_of(source_document(file, read, chunking=chunking), embedding.model)[0]
    return _collection(DOCUMENTATION.name, drafts, embedding)


def read_collection(folder: Path, embedding: EmbeddingProvider) -> TextCollection:
    with read_query_set(folder).corpus.open("rb") as lines:
        records = [record for record in read_records(lines) if isinstance(record, Record)]
    drafts = [draft for record in records if (draft := draft_of_record(record, "", "", model=embedding.model))]
    return _collection(folder.name, drafts, embedding)


def own_questions(of: str = "") -> list[Question]:
    """Return the questions written for this repository: nonsense, and those that the documentation answers."""
    nonsense = read_lines(FOLDER / f"nonsense{of}.jsonl")
    answerable = read_lines(FOLDER / f"answerable{of}.jsonl")
    return [
        *((line["question"], None) for line in nonsense),
        *((line["question"], DOCUMENTATION.name) for line in answerable),
    ]


def judged(folder: Path) -> list[Question]:
    return [(query.text, folder.name) for query in read_query_set(folder).queries]


def read_lines(file: Path) -> list[dict[str, str]]:
    return [orjson.loads(line) for line in file.read_bytes().splitlines()]


def best_hits(
    questions: Sequence[Question], collections: Iterable[TextCollection], embedding: EmbeddingProvider
) -> BestHits:
    asked = _unit(embedding.embed([text for text, _ in questions]))
    rows = []
    for collection in collections:
        cosines = asked @ collection.vectors.T
        for (text, home), row in zip(questions, cosines, strict=True):
            nearest = np.argsort(-row)[:CANDIDATES]
            words_found = WordsFound(text, [collection.texts[place] for place in nearest]).share
            rows.append((float(row[nearest[0]]), words_found, home == collection.name))
    cosine, found, answers = zip(*rows, strict=True)
    return BestHits(np.array(cosine), np.array(found), np.array(answers))


def fit(hits: BestHits) -> LogisticCurve:
    """Return the logistic regression of the answers on cosine and words found; either kind of answer weighs as much as
    the other."""
    features = np.column_stack([hits.cosines, hits.words_found, np.ones(len(hits.cosines))])
    share = hits.answers.mean()
    weights = np.where(hits.answers, 0.5 / share, 0.5 / (1.0 - share))
    coefficients = np.zeros(3)
    for _ in range(100):  # Newton's method; it converges within 20 steps
        expected = 1.0 / (1.0 + np.exp(-features @ coefficients))
        gradient = features.T @ (weights * (hits.answers - expected))
        curvature = (features * (weights * expected * (1.0 - expected))[:, None]).T @ features
        coefficients += np.linalg.solve(curvature, gradient)
    slope, words, constant = coefficients.tolist()
    return LogisticCurve(
        midpoint=round(-(words + constant) / slope, 3),
        slope=round(slope, 1),
        missing_words=round(max(0.0, words / slope), 3),
        min_relevance=MIN_RELEVANCE,
    )


def area_under_curve(values: Vector, answers: Any) -> float:
    """Return the probability that a hit that answers has a greater value than one that does not."""
    others = np.sort(values[~answers])
    below = np.searchsorted(others, values[answers], "left") + np.searchsorted(others, values[answers], "right")
    return float(below.mean()) / 2.0 / len(others)


def show(curve: LogisticCurve, fitted: BestHits, held_out: BestHits) -> None:
    console = Console()
    console.print(curve)
    relevances = fitted.relevances(curve)
    of_cosine = area_under_curve(fitted.cosines, fitted.answers)
    of_relevance = area_under_curve(relevances, fitted.answers)
    console.print(f"area under the ROC curve: {of_relevance:.4f}; of the cosine alone: {of_cosine:.4f}")
    meaning = Table("cosine", *(f"{share:.0%} of the words" for share in (0.9, 0.5, 0.0)))
    for cosine in np.arange(0.1, 0.75, 0.05).tolist():
        meaning.add_row(f"{cosine:.2f}", *(f"{curve.relevance(cosine, share):.2f}" for share in (0.9, 0.5, 0.0)))
    console.print(meaning)
    promised = Table("relevance", "best hits", "of them from the collection that answers")
    for least in np.arange(0.0, 1.0, 0.2).tolist():
        within = (relevances >= least) & (relevances < least + 0.2 + (least > 0.7))
        share = f"{fitted.answers[within].mean():.2f}" if within.any() else "–"
        promised.add_row(f"{least:.1f} to {least + 0.2:.1f}", str(within.sum()), share)
    console.print(promised)
    rates = Table("questions", "threshold", "answered, of those with an answer", "answered, of the others")
    for name, hits in (("fitted to", fitted), ("held out", held_out)):
        shown = hits.relevances(curve)
        for least in (0.6, 0.7, MIN_RELEVANCE, 0.9, 0.95):
            passed = shown >= least
            own, others = passed[hits.answers], passed[~hits.answers]
            rates.add_row(name, f"{least}", f"{own.sum()} of {len(own)}", f"{others.sum()} of {len(others)}")
    console.print(rates)


def described(curve: LogisticCurve, model: str, sets: Sequence[Path], fitted: BestHits) -> dict[str, Any]:
    """Return the calibration as its file has it."""
    files = [
        *(FOLDER / f"{name}-for-fitting.jsonl" for name in ("answerable", "nonsense")),
        *(folder / name for folder in sets for name in ("corpus.jsonl", "queries.jsonl")),
    ]
    return {
        "models": [model],
        "midpoint": curve.midpoint,
        "slope": curve.slope,
        "missing_words": curve.missing_words,
        "min_relevance": curve.min_relevance,
        "fitted_on": {
            "date": datetime.now(UTC).date().isoformat(),
            "best_hits": len(fitted.cosines),
            "sha256": {f"{file.parent.name}/{file.name}": _sha256(file) for file in files},
        },
    }


def _collection(name: str, drafts: Sequence[Draft], embedding: EmbeddingProvider) -> TextCollection:
    texts = [text_to_embed(draft.text, draft.metadata) for draft in drafts]
    return TextCollection(name, texts, _unit(embedding.embed(texts)))


def _unit(vectors: Vector) -> Vector:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
