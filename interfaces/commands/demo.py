"""`make demo`: runs the service from start to stop on the project's own documentation and checks every answer.

    python -m interfaces.commands.demo [FOLDER]

With a folder, it is the documentation in that one: README.md, CONTRIBUTING.md and what is in docs/.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markdown import Markdown
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from interfaces.commands.scratch_service import ScratchService, command, scratch_service
from providers.embeddings.base import EmbeddingProvider
from providers.embeddings.minilm import MiniLMProvider
from providers.rag_wrapper.client import WrapperClient
from retrieval.ingest.drafts import Draft, drafts_of
from retrieval.ingest.files import GivenFile, source_document
from retrieval.ingest.profiles import chunking_of
from retrieval.ingest.walk import walk
from retrieval.reading import DocumentReader
from schemas.errors import RagError
from schemas.plurals import counted
from schemas.records import Vector
from schemas.settings import RetrievalSettings

COLLECTION = "documentation"
QUESTION = "What happens to acknowledged documents when the process is killed?"
ANSWER_WORDS = re.compile(r"kill|crash|acknowledg|durab|surviv", re.IGNORECASE)
TOP_K = 5
PROJECT = Path(__file__).parents[2]
DOCUMENTATION = ("README.md", "CONTRIBUTING.md", "docs")

_DISTANCE_TOLERANCE = 1e-4  # float32 sums in another order
_MODEL = "all-MiniLM-L6-v2"


class WrongAnswerError(RagError):
    """The service's answer differs from what the files say."""

    code = "wrong_answer"


class Demo:
    """Asks a service that holds `expected`, shows its answers, and raises WrongAnswerError for a wrong one."""

    def __init__(self, provider: WrapperClient, expected: list[Draft], console: Console) -> None:
        self._provider = provider
        self._expected = {draft.id: draft for draft in expected}
        self._console = console
        self.checks = 0

    def show_query(self, embedding: Vector) -> None:
        answer = self._provider.query(COLLECTION, embedding, top_k=TOP_K)
        results = answer["results"]
        self._title(f"Vector query: “{QUESTION}”", f"plan: {answer['plan']}")
        self._table(
            ("score", "distance", "source", "section"),
            [
                (f"{hit['score']:.3f}", f"{hit['distance']:.3f}", hit["metadata"]["source"], hit["metadata"]["section"])
                for hit in results
            ],
        )
        stored = list(self._provider.documents(COLLECTION, include=["embedding"]))
        truth = np.sort(_cosine_distances(embedding, [document["embedding"] for document in stored]))[:TOP_K]
        found = np.array([hit["distance"] for hit in results])
        same = truth.shape == found.shape and np.allclose(found, truth, atol=_DISTANCE_TOLERANCE)
        self._check("the hits are the nearest of all stored embeddings, nearest first", same, found)
        scores = [hit["score"] for hit in results]
        expected_scores = [1 - hit["distance"] / 2 for hit in results]
        self._check("a score is 1 - distance/2", np.allclose(scores, expected_scores, atol=1e-6), scores)
        best = results[0]
        self._check("the best hit's text is the file's", self._is_right(best), best["id"])
        self._check("the best hit answers the question", bool(ANSWER_WORDS.search(best["text"])), best["text"])

    def show_gather(self, embedding: Vector) -> None:
        gather = {"by": "section_id", "order_by": ["chunk_index"]}
        answer = self._provider.query(COLLECTION, embedding, top_k=TOP_K, gather=gather)
        best, group = answer["results"][0], answer["groups"][0]
        self._title("The whole section of the best hit, in the same call", str(group["key"]))
        text = "\n\n".join(document["text"] for document in group["documents"])
        self._console.print(Panel(Markdown(text), title=Text(best["metadata"]["section"])))
        section = [draft.id for draft in self._expected.values() if draft.metadata["section_id"] == group["key"]]
        ids = [document["id"] for document in group["documents"]]
        hits = [document["id"] for document in group["documents"] if document["hit"]]
        self._check("the first group is the best hit's section", group["key"] == best["metadata"]["section_id"], group)
        self._check("it is the whole section in reading order", ids == section and group["complete"] is True, ids)
        self._check("its texts are the file's", all(map(self._is_right, group["documents"])), ids)
        self._check("the best hit is marked in it", best["id"] in hits, hits)

    def show_page(self) -> None:
        readme = f"{COLLECTION}/README.md"
        where = {"source": readme, "chunk_index": {"$gte": 1}}
        page = self._provider.page(COLLECTION, where, order_by=["-chunk_index"], limit=5)
        self._title(f"A filtered page: {where}, last chunk first", f"{page['count']} of {page['total']}")
        self._table(
            ("chunk_index", "start_line", "section"),
            [
                tuple(str(document["metadata"][field]) for field in ("chunk_index", "start_line", "section"))
                for document in page["documents"]
            ],
        )
        matching = [
            draft.id
            for draft in self._expected.values()
            if draft.metadata["source"] == readme and draft.metadata["chunk_index"] >= 1
        ]
        ids = [document["id"] for document in page["documents"]]
        self._check("total is the exact number of matches", page["total"] == len(matching), page["total"])
        self._check("the page holds the last chunks, last first", ids == matching[::-1][:5], ids)

    def show_facets(self) -> None:
        answer = self._provider.facets(COLLECTION, ["source"])
        values = answer["facets"]["source"]["values"]
        self._title("Facets: chunks by source", f"total: {answer['total']}")
        self._table(("source", "chunks"), [(facet["value"], str(facet["count"])) for facet in values])
        counts = {facet["value"]: facet["count"] for facet in values}
        loaded = Counter(draft.metadata["source"] for draft in self._expected.values())
        self._check("each source has its chunks", counts == loaded, counts)
        self._check("the counts add up to what was loaded", sum(counts.values()) == len(self._expected), counts)
        self._check("the total is what was loaded", answer["total"] == len(self._expected), answer["total"])
        descending = [facet["count"] for facet in values]
        self._check("the most frequent comes first", descending == sorted(descending, reverse=True), descending)

    def _is_right(self, document: dict[str, Any]) -> bool:
        draft = self._expected.get(document["id"])
        if draft is None or document["text"] != draft.text:
            return False
        times = {"created_at", "updated_at"}
        return {name: value for name, value in document["metadata"].items() if name not in times} == draft.metadata

    def _check(self, claim: str, holds: bool, found: object) -> None:
        if not holds:
            raise WrongAnswerError(f"This does not hold: {claim}; found {found}")
        self.checks += 1
        self._console.print(f"  ✓ {claim}", style="green", markup=False, highlight=False)

    def _title(self, title: str, note: str) -> None:
        self._console.rule()
        self._console.print(title, style="bold", markup=False, highlight=False)
        self._console.print(note, style="dim", markup=False, highlight=False)

    def _table(self, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
        table = Table(*columns)
        for row in rows:
            table.add_row(*map(Text, row))  # a heading may look like markup
        self._console.print(table)


def copy_documentation(project: Path, folder: Path) -> None:
    """Copy the project's documentation, and nothing else of it, into `folder`."""
    folder.mkdir()
    for name in DOCUMENTATION:
        if (project / name).is_dir():
            shutil.copytree(project / name, folder / name)
        elif (project / name).is_file():
            shutil.copy(project / name, folder)


def expected_documents(folder: Path, embedding: EmbeddingProvider) -> list[Draft]:
    """Return what loading `folder` must store, in its order."""
    chunking = chunking_of(RetrievalSettings(), embedding)
    with DocumentReader() as reader:
        given = (GivenFile(f"{folder.name}/{each.path_below}", each.path, each.kind) for each in walk(folder).files)
        documents = [source_document(each, reader=reader, chunking=chunking) for each in given]
    return [draft for document in documents for draft in drafts_of(document, _MODEL)[0]]


def load_twice(service: ScratchService, folder: Path, expected: list[Draft], console: Console) -> None:
    """Run `rag-wrapper load` as a user types it, twice; the second time nothing is left to do."""
    found = walk(folder)
    files = counted(len(found.files), "file")
    stored = f"{files}, {counted(len(expected), 'new chunk')}: {len(found.files)} created"
    passed_over = f", {len(found.passed_over)} passed over" if found.passed_over else ""
    for outcome in (f"{COLLECTION}: {stored}", f"nothing changed: {files} are already there"):
        said = outcome + passed_over
        arguments = ("load", str(folder), "--collection", COLLECTION)
        console.print(
            f"$ rag-wrapper {' '.join(arguments)}", style="bold", markup=False, highlight=False, soft_wrap=True
        )
        result = subprocess.run(
            command(*arguments), env=service.environ, stdout=subprocess.PIPE, text=True, timeout=600, check=False
        )
        console.print(result.stdout.rstrip(), markup=False)
        if result.returncode != 0 or result.stdout.strip() != said:
            raise WrongAnswerError(f"This was expected of the load: “{said}”, and exit code 0, not {result.returncode}")


def run(project: Path, directory: Path, console: Console) -> int:
    """Run the whole demo on the documentation of `project`, in an empty directory. Return how many answers were
    checked."""
    folder = directory / COLLECTION
    copy_documentation(project, folder)
    with MiniLMProvider({}) as embed:
        expected = expected_documents(folder, embed)
        question = embed.embed([QUESTION])[0]
    with scratch_service(directory) as service, closing(WrapperClient.at(service.url)) as provider:
        console.print(f"The service is healthy at {service.url}", highlight=False)
        demo = Demo(provider, expected, console)
        steps: tuple[Callable[[], None], ...] = (
            lambda: load_twice(service, folder, expected, console),
            lambda: demo.show_query(question),
            lambda: demo.show_gather(question),
            demo.show_page,
            demo.show_facets,
        )
        try:
            for step in steps:
                step()
        except RagError:
            console.print("The service's last words:\n" + service.log_tail, markup=False, highlight=False)
            raise
    return demo.checks


def main() -> int:
    """Return 0 when every answer was right and no process was left behind, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", metavar="FOLDER", type=Path, nargs="?", default=PROJECT)
    project = parser.parse_args().project
    console = Console()
    try:
        with tempfile.TemporaryDirectory(prefix="rag-wrapper-demo-") as directory:
            checks = run(project, Path(directory).resolve(), console)
    except RagError as error:
        console.print(f"\n{error.message}", style="bold red", markup=False, highlight=False)
        return 1
    console.print(f"\nAll {checks} checks hold. The service is stopped and its directory removed.", style="bold green")
    return 0


def _cosine_distances(embedding: Vector, stored: list[Any]) -> Vector:
    matrix = np.asarray(stored, dtype=np.float32)
    lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(embedding)
    return np.asarray(1 - matrix @ embedding / lengths, dtype=np.float32)


if __name__ == "__main__":
    sys.exit(main())
