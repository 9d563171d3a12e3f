"""A story with every kind of write, and a client that tells it and repeats writes that were not answered."""

from dataclasses import dataclass, field
from typing import Any

from providers.contract_tests.model import ModelDocument
from tests.properties.operations import Operation
from tests.properties.processes import Process
from tests.properties.strategies import embedding


def add(
    name: str,
    *documents: tuple[str, dict[str, Any], int],
    where: dict[str, Any] | None = None,
    on_conflict: str = "replace",
    dimension: int = 3,
) -> Operation:
    """Make an operation that adds documents given as (id, metadata, seed of the embedding)."""
    made = [
        ModelDocument(document_id, f"text of {document_id}, {metadata}", metadata, embedding(seed, dimension))
        for document_id, metadata, seed in documents
    ]
    return Operation("add", name, {"documents": made, "on_conflict": on_conflict, "replace_where": where})


STORY = [
    Operation("create", "first", {"metadata": {"topic": "x", "list": [1, None], "deep": {"a": 1}}, "metric": "cosine"}),
    add("first", ("d1", {"old": 1, "kept": True}, 1), ("d2", {"part": "s"}, 2), ("d3", {"part": "s"}, 3)),
    add("first", ("d1", {"kept": True, "nested": {"a": [1, "x"]}}, 4), ("d4", {"part": "s"}, 5), where={"part": "s"}),
    Operation("patch", "first", {"id": "d1", "text": "patched", "metadata": {"kept": None}, "embedding": None}),
    Operation("create", "second", {"metadata": {}, "metric": "l2"}),
    add("second", ("d1", {"a": 1.5}, 6), ("d2", {"a": 2**53 + 1}, 7)),
    add("first", ("d4", {"x": 1}, 8), ("d5", {"x": None}, 9), on_conflict="skip"),
    Operation("delete", "first", {"ids": ["d4", "unknown"]}),
    Operation("change", "first", {"metadata": {"topic": None, "more": 1}, "merge": True}),
    Operation("empty", "first"),
    add("first", ("d1", {"new": "model"}, 10), dimension=2),
    Operation("delete_where", "second", {"where": {"a": {"$gt": 2}}}),
    Operation("drop", "second"),
    Operation("create", "second", {"metadata": {"again": True}, "metric": "ip"}),
    add("second", ("d9", {"a": 1}, 11)),
]


@dataclass
class Client:
    """Sends a story's writes one after the other, each with an idempotency key of its own."""

    done: int = 0
    """The number of writes that were answered."""
    answers: list[Any] = field(default_factory=list)

    def work(self, process: Process, story: list[Operation], *, drains: str) -> None:
        for number in range(self.done, len(story)):
            self.answers.append(story[number].run(process.store, key=f"write-{number}"))
            self.done += 1
            if drains == "always" or (drains == "sometimes" and number % 3 == 2):
                process.drain()
