"""Generated writes, applied to a store and to the model with the same outcome."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from providers.contract_tests.model import Json, ModelDocument, matches
from schemas.errors import ConflictError, InvalidInputError, NotFoundError, RagError
from schemas.records import DocumentPatch
from schemas.where import parse_where
from schemas.wire.storage.document import added_answer
from tests.properties.strategies import BODIES, CLAUSES, METADATA, SHARED_METADATA, embedding, to_batch
from tests.properties.writable_model import WritableModel, merged
from wrapper.store import Store
from wrapper.writing import WriteOptions

Model = dict[str, WritableModel]
COUNTED = ("created", "updated", "unchanged", "deleted", "count")
NAMES = st.sampled_from(("first", "second"))
IDS = st.sampled_from(("d1", "d2", "d3", "d4", "d5", "d\x006", "ü/7"))
METADATAS = SHARED_METADATA | METADATA
FILTERED = CLAUSES | st.sampled_from(({"a": 1}, {"a": {"$exists": True}}, {"b": {"$ne": "a"}}))


@dataclass(frozen=True)
class Operation:
    """A write; `apply` does it to the model and returns the expected answer, or None when it must be refused."""

    kind: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def run(self, store: Store, key: str | None = None) -> Json | None:
        """Do the write; return the counts of what was done, or None when the store refused it."""
        options = WriteOptions(idempotency_key=key, digest=repr(self))
        try:
            written = getattr(self, f"_run_{self.kind}")(store, options)
        except RagError as error:
            assert isinstance(error, ConflictError | InvalidInputError | NotFoundError)
            return None
        return self._counts(written.outcome)

    def _counts(self, outcome: Any) -> Json:
        if self.kind == "add":
            with_deleted = self.arguments["replace_where"] is not None
            counted = added_answer(self.name, outcome, with_deleted=with_deleted)
            return {name: counted[name] for name in COUNTED if name in counted}
        if self.kind == "empty":
            return {"count_deleted": outcome.deleted}
        return {"count": outcome.deleted} if self.kind in ("delete", "delete_where") else {}

    def apply(self, model: Model) -> Json | None:
        if self.kind == "create":
            if self.name in model:
                return None
            model[self.name] = WritableModel(self.arguments["metadata"], self.arguments["metric"])
            return {}
        if self.name not in model:
            return None
        outcome: Json | None = getattr(self, f"_apply_{self.kind}")(model)
        return outcome

    def _run_create(self, store: Store, options: WriteOptions) -> Any:
        return store.create_collection(self.name, self.arguments["metadata"], self.arguments["metric"], options)

    def _run_drop(self, store: Store, options: WriteOptions) -> Any:
        return store.delete_collection(self.name, options)

    def _apply_drop(self, model: Model) -> Json | None:
        del model[self.name]
        return {}

    def _run_empty(self, store: Store, options: WriteOptions) -> Any:
        return store.empty_collection(self.name, options)

    def _apply_empty(self, model: Model) -> Json | None:
        collection = model[self.name]
        collection.dimension = None
        return {"count_deleted": collection.remove(lambda _: True)}

    def _run_change(self, store: Store, options: WriteOptions) -> Any:
        merge = self.arguments["merge"]
        return store.change_collection_metadata(self.name, self.arguments["metadata"], options, merge=merge)

    def _apply_change(self, model: Model) -> Json | None:
        before, given = model[self.name].metadata, self.arguments["metadata"]
        model[self.name].metadata = merged(before, given) if self.arguments["merge"] else given
        return {}

    def _run_add(self, store: Store, options: WriteOptions) -> Any:
        where = self.arguments["replace_where"]
        return store.add_documents(
            self.name,
            to_batch(self.arguments["documents"]),
            options,
            on_conflict=self.arguments["on_conflict"],
            replace_where=None if where is None else parse_where(where),
        )

    def _apply_add(self, model: Model) -> Json | None:
        collection, documents = model[self.name], self.arguments["documents"]
        mode, where = self.arguments["on_conflict"], self.arguments["replace_where"]
        dimension = len(documents[0].embedding)
        if collection.dimension not in (None, dimension):
            return None
        if mode == "error" and any(collection.by_id(each.id) for each in documents):
            return None
        kept = {each.id for each in documents}
        outcome = {"created": 0, "updated": 0, "unchanged": 0, "count": len(documents)}
        if where is not None:
            outcome["deleted"] = collection.remove(lambda each: each.id not in kept and matches(where, each.metadata))
        for each in documents:
            skipped = mode == "skip" and collection.by_id(each.id) is not None
            outcome["unchanged" if skipped else collection.put(_copy(each))] += 1
        if outcome["created"] or outcome["updated"] or outcome.get("deleted"):
            collection.dimension = dimension
        return outcome

    def _run_patch(self, store: Store, options: WriteOptions) -> Any:
        return store.patch_document(
            self.name,
            self.arguments["id"],
            DocumentPatch(self.arguments["text"], self.arguments["metadata"], self.arguments["embedding"]),
            options,
        )

    def _apply_patch(self, model: Model) -> Json | None:
        collection = model[self.name]
        document = collection.by_id(self.arguments["id"])
        vector = self.arguments["embedding"]
        if document is None or (vector is not None and len(vector) != collection.dimension):
            return None
        if self.arguments["text"] is not None:
            document.text = self.arguments["text"]
        if self.arguments["metadata"] is not None:
            document.metadata = merged(document.metadata, self.arguments["metadata"])
        if vector is not None:
            document.embedding = vector
        return {}

    def _run_delete(self, store: Store, options: WriteOptions) -> Any:
        return store.delete_documents(self.name, options, ids=self.arguments["ids"])

    def _apply_delete(self, model: Model) -> Json | None:
        ids = self.arguments["ids"]
        return {"count": model[self.name].remove(lambda each: each.id in ids)}

    def _run_delete_where(self, store: Store, options: WriteOptions) -> Any:
        return store.delete_documents(self.name, options, where=parse_where(self.arguments["where"]))

    def _apply_delete_where(self, model: Model) -> Json | None:
        where = self.arguments["where"]
        return {"count": model[self.name].remove(lambda each: matches(where, each.metadata))}


def _copy(document: ModelDocument) -> ModelDocument:
    return ModelDocument(document.id, document.text, document.metadata, document.embedding)


VECTORS = st.tuples(st.integers(0, 40), st.sampled_from((3, 3, 3, 3, 2))).map(lambda pair: embedding(*pair))


@st.composite
def _added(draw: st.DrawFn) -> list[ModelDocument]:
    ids = draw(st.lists(IDS, min_size=1, max_size=5, unique=True))
    dimension = draw(st.sampled_from((3, 3, 3, 3, 2)))
    return [
        ModelDocument(each, draw(BODIES), draw(METADATAS), embedding(draw(st.integers(0, 40)), dimension))
        for each in ids
    ]


def _of(kind: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Operation]:
    return st.builds(Operation, st.just(kind), NAMES, st.fixed_dictionaries(arguments))


ADDITIONS = _of(
    "add",
    documents=_added(),
    on_conflict=st.sampled_from(("replace", "replace", "replace", "skip", "error")),
    replace_where=st.none() | FILTERED,
)
CREATIONS = _of("create", metadata=METADATAS, metric=st.sampled_from(("cosine", "l2", "ip")))
OPERATIONS = st.one_of(
    CREATIONS,
    ADDITIONS,
    ADDITIONS,
    ADDITIONS,
    _of("patch", id=IDS, text=st.none() | BODIES, metadata=st.none() | METADATAS, embedding=st.none() | VECTORS).filter(
        lambda each: any(value is not None for name, value in each.arguments.items() if name != "id")
    ),
    _of("delete", ids=st.lists(IDS, max_size=3)),
    _of("delete_where", where=FILTERED),
    _of("change", metadata=METADATAS, merge=st.booleans()),
    _of("empty"),
    _of("drop"),
)
STORIES = st.tuples(st.lists(CREATIONS, min_size=1, max_size=1), st.lists(OPERATIONS, min_size=2, max_size=7)).map(
    lambda parts: parts[0] + parts[1]
)
