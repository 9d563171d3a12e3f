"""Make a query set in BEIR's layout of the project's own documentation: its sections, and questions written for them.

    python -m benchmarks.own_docs DIR && rag-wrapper bench DIR

A document is the text under one heading of the README or of `docs/`. Each question names the sections that answer it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import orjson

from retrieval.chunking import Chunk, split_sections

PROJECT = Path(__file__).parent.parent
WHOLE = 1_000_000
QUESTIONS = {
    "what happens to stored documents when the process is killed": [
        "docs/reliability.md > Promised > What was acknowledged survives",
    ],
    "how do I fetch every chunk of a section when one of them matches": ["docs/api-guide.md > Whole sections"],
    "store the same request only once after a timeout": ["docs/api-guide.md > Write once"],
    "avoid overwriting somebody else's change": ["docs/api-guide.md > Write only what you have seen"],
    "replace all chunks of a source document at once": ["docs/api-guide.md > Swap a source's chunks"],
    "read a large collection page after page": ["docs/api-guide.md > Page by cursor"],
    "how many documents have each value of a field": ["docs/api-guide.md > Count values"],
    "which greater-than and less-than operators can a filter use": ["docs/api-guide.md > Filters"],
    "back up the data and restore it on another machine": ["docs/operations.md > Backups"],
    "use PostgreSQL instead of SQLite": ["docs/operations.md > On PostgreSQL"],
    "migrate an existing Chroma database": [
        "docs/operations.md > Bring an existing Chroma",
        "docs/reliability.md > Promised > What is in Chroma already is taken in",
    ],
    "put nginx in front of the service": ["docs/operations.md > Behind a reverse proxy"],
    "what to do when the disk fills up": ["docs/operations.md > When things go wrong"],
    "how does a vector query choose between the index and an exact scan": [
        "docs/architecture.md > The plans of a vector query",
    ],
    "reciprocal rank fusion of semantic and lexical results": [
        "docs/architecture.md > The way of a search",
        "docs/quality.md > What it is made of",
        "docs/api-guide.md > Ask all oracles",
    ],
    "write a provider plugin in a package of my own": [
        "docs/providers.md > A provider of your own",
        "docs/providers.md > A provider of your own > What a provider has to do",
    ],
    "keep API keys out of stored connections": ["docs/providers.md > Connections"],
    "HNSW parameters M and ef_construction": ["docs/engine.md > Index parameters"],
    "which Prometheus metrics are there": ["docs/operations.md > Metrics"],
    "why is the embedded vector engine run in a separate process": [
        "docs/performance.md > Decisions with a number > The engine in a process of its own",
        "docs/engine.md > How it is run",
        "docs/architecture.md > Processes",
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    write(parser.parse_args().directory)


def write(directory: Path, documents: Sequence[tuple[str, Chunk]] | None = None) -> None:
    """Write the query set into `directory`, with these sections or with all."""
    documents = documents if documents is not None else sections()
    (directory / "qrels").mkdir(parents=True, exist_ok=True)
    _write_lines(
        directory / "corpus.jsonl",
        [{"_id": name, "title": chunk.section.rpartition(" > ")[2], "text": chunk.text} for name, chunk in documents],
    )
    _write_lines(
        directory / "queries.jsonl",
        [{"_id": str(number), "text": question} for number, question in enumerate(QUESTIONS, start=1)],
    )
    judgements = [
        f"{number}\t{name}\t1\n" for number, answers in enumerate(QUESTIONS.values(), start=1) for name in answers
    ]
    (directory / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judgements))


def sections() -> list[tuple[str, Chunk]]:
    """Return (`file > heading > …`, its chunk) for all sections, without the heading of the file itself."""
    files = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
    return [
        (" > ".join([str(file.relative_to(PROJECT)), *chunk.section.split(" > ")[1:]]), chunk)
        for file in files
        for chunk in split_sections(file.read_text(), max_tokens=WHOLE)
    ]


def _write_lines(path: Path, records: list[dict[str, str]]) -> None:
    path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))


if __name__ == "__main__":
    main()
