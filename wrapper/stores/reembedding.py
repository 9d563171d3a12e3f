"""Collections that get the vectors of another model, beside the old ones until the new ones are complete.

The new vectors are a collection of their own that nobody sees (`wrapper/catalog/names/beside.py`). It follows its
source until it has come to the source's revision. In that transaction the two change places, so no write lies in
between, and the old vectors stand beside the new ones until they are dropped. How far it is, is in its own metadata,
written with the documents that it tells of: whatever ends the work, it goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np

from schemas.errors import CollectionNotFoundError, ConflictError, InvalidInputError
from schemas.metadata import check_collection_metadata
from schemas.records import NO_EXTRAS, Collection, DocumentBatch, Metadata, Vector
from schemas.storage.erasure_count import ErasedMeanwhileError, check_nothing_erased, erasures
from schemas.storage.reembedding import (
    Mark,
    Part,
    ReembeddedMeanwhileError,
    Reembedding,
    ReembeddingNotFoundError,
    Status,
    embedded_by,
    recorded_connection,
    recorded_model,
    with_embedded_by,
    with_function_of,
)
from wrapper.catalog import reads, writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.changes.catching_up import LAST_POSITION, changed_documents, count_left, new_documents, surplus
from wrapper.catalog.changes.feed import positions_since
from wrapper.catalog.changes.held_matches import PlannedMatches
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state.adoptions import writable
from wrapper.catalog.names import collection_writes
from wrapper.catalog.names.beside import belongs_to, beside, change_places, name_beside, names_of_all
from wrapper.catalog.preparing import DocumentWrite
from wrapper.catalog.rows import dump_json, find_collection
from wrapper.embedding_checks import check_directions
from wrapper.writing import AS_IT_COMES, Writing

MARK = "reembedding"
"""The key of the metadata that says how far the vectors beside a collection are."""
EMBEDDED_AT_ONCE = 100
DELETED_AT_ONCE = 2_000
MAX_ERROR_CHARACTERS = 1_000
"""The most of a reason that is kept: the id that it names may be of any length."""


class Reembeddings:
    """Methods with the name of a collection raise CollectionNotFoundError for one that is not there. `leads` says
    whether this process is the one to do the work."""

    def __init__(self, catalog: Catalog, writing: Writing, leads: Callable[[], bool]) -> None:
        self._catalog = catalog
        self._writing = writing
        self.leads = leads

    def of(self, name: str) -> Reembedding:
        """Return the state of a collection's re-embedding. Raises ReembeddingNotFoundError when there is none."""
        with self._catalog.read() as transaction:
            return _state(transaction, find_collection(transaction, name))

    def begin(self, name: str, embedding: Metadata) -> Reembedding:
        """Have vectors made by what `embedding` names under the keys `EMBEDDED_BY`, or go on with that where it failed.
        Where those are kept that the collection was switched back from, it is switched to them.

        Raises ConflictError when others are being made, and when old ones are kept, and InvalidInputError when the
        collection's metadata have no room for what `embedding` says.
        """

        def operation(transaction: Transaction) -> Reembedding:
            source = writable(transaction, name)
            known = beside(transaction, source)
            if known is not None:
                mark = _mark(known)
                if embedded_by(known.metadata) == embedding and _is_of_all_documents(transaction, source, mark):
                    _switch(transaction, source, known)
                    return _state(transaction, find_collection(transaction, name))
                _check_may_begin(source, known, mark, embedding)
                if embedded_by(known.metadata) == embedding:
                    _note(transaction, known, replace(mark, status=Status.RUNNING, error=None))
                    return _state(transaction, source)
                collection_writes.delete_collection(transaction, known.name)
            described = _described(source, embedding)
            made, _ = collection_writes.create_collection(
                transaction,
                name_beside(source),
                described,
                source.metric,
                configuration=with_function_of(source.configuration, None),
                engine_calls_it=source.name,
                engine_records=source.engine_records,
            )
            _note(transaction, made, Mark(Status.RUNNING, 0, source.revision, LAST_POSITION))
            return _state(transaction, source)

        return self._writing.commit(name, operation, AS_IT_COMES)

    def end(self, name: str) -> Reembedding:
        """Give up the vectors that are being made, or drop the old ones, and return what the state was. Raises
        ReembeddingNotFoundError when there are none."""

        def operation(transaction: Transaction) -> Reembedding:
            source = find_collection(transaction, name)
            before = _state(transaction, source)
            collection_writes.delete_collection(transaction, name_beside(source))
            return before

        return self._writing.commit(name, operation, AS_IT_COMES, deletes=True)

    def go_back(self, name: str) -> Reembedding:
        """Search by the old vectors, and keep the new ones; nothing is done when that was done before. Raises
        ReembeddingNotFoundError when there are none, ConflictError unless they are those of all documents, and
        InvalidInputError when the collection's metadata have no room for the names of what made them."""

        def operation(transaction: Transaction) -> Reembedding:
            source = writable(transaction, name)
            state, known = _state(transaction, source), find_collection(transaction, name_beside(source))
            if _mark(known).is_back:
                return state
            if not state.can_go_back:
                raise ConflictError(
                    f"Documents of collection '{name}' were written since it was re-embedded, or it is not complete: "
                    "there are no old vectors of all documents",
                    code="reembedding_no_way_back",
                    collection=name,
                )
            _switch(transaction, source, known, is_back=True)
            return _state(transaction, find_collection(transaction, name))

        return self._writing.commit(name, operation, AS_IT_COMES)

    def under_way(self) -> dict[str, int]:
        """Return what `next_part` calls the re-embeddings that there is work for, each with the key of its parts."""
        with self._catalog.read() as transaction:
            found = [find_collection(transaction, each) for each in names_of_all(transaction)]
        return {each.name: each.key for each in found if _mark(each).status == Status.RUNNING}

    def next_part(self, name: str, limit: int = EMBEDDED_AT_ONCE) -> Part | None:
        """Return what is to be done next, at most `limit` documents; None when the re-embedding has ended."""
        with self._catalog.read() as transaction:
            try:
                copy = find_collection(transaction, name)
            except CollectionNotFoundError:
                return None
            source, mark = belongs_to(transaction, name), _mark(copy)
            if source is None or mark.status != Status.RUNNING:
                return None
            new = new_documents(transaction, source, mark.copied_to, limit)
            since = mark.revision, mark.changed_to
            changed = changed_documents(transaction, source, since, mark.copied_to, limit - len(new))
            after = replace(mark, error=None, copied_to=new[-1].position if new else mark.copied_to)
            is_last = len(new) + len(changed) < limit
            if is_last:
                after = replace(after, revision=source.revision, changed_to=LAST_POSITION)
            elif changed:
                last, revision = changed[-1]
                after = replace(after, revision=revision, changed_to=last.position)
            documents = [*new, *(each for each, _ in changed)]
            stored = reads.by_ids(transaction, copy, [each.id for each in documents], with_embeddings=True)
            # An id that was given again: its document is a new one, and stands where new ones stand.
            doomed = [each.id for each in new if each.id in stored]
            if is_last and copy.count - len(doomed) + len(new) != source.count:
                doomed += surplus(transaction, copy, source, DELETED_AT_ONCE)
            if is_last:
                left = copy.count - len(doomed) + len(new) - source.count
            else:
                left = count_left(transaction, source, since, mark.copied_to) - len(documents)
            by = copy.metadata
            return Part(
                name,
                copy.key,
                source.name,
                by["embedding_connection"],
                by["embedding_model"],
                documents,
                stored,
                doomed,
                mark,
                after,
                is_last,
                left,
                source.revision,
                erasures(transaction),
            )

    def store(self, part: Part, vectors: Vector | None) -> bool:
        """Store a part with the vectors of its documents, float32 (documents, dimension), None where there are none,
        and switch the collection to the new vectors when that was all. Return whether it was.

        Nothing is stored when the re-embedding has ended or gone on meanwhile, when another one has begun, or something
        was erased. Raises InvalidInputError for vectors that the collection cannot have, and when its metadata have no
        room for the names of what made them.
        """

        def plan(transaction: Transaction, matches: PlannedMatches) -> writes.PlannedWrite:
            assert vectors is not None
            copy = find_collection(transaction, part.name)
            _check_dimension(part, copy, vectors)
            check_directions(copy, vectors)
            return writes.plan_addition(transaction, matches, part.name, _batch(part, vectors))

        added = None if vectors is None else DocumentWrite(plan)

        def operation(transaction: Transaction) -> bool:
            check_nothing_erased(transaction, part.erasures)
            copy, source = find_collection(transaction, part.name), belongs_to(transaction, part.name)
            if source is None or (copy.key, _mark(copy)) != (part.key, part.before):
                return False
            if part.doomed:
                writes.delete_documents(transaction, part.name, ids=part.doomed)
            if added is not None:
                added.store(transaction)
            copy = find_collection(transaction, part.name)
            if part.is_last and source.revision == part.revision and source.count == copy.count:
                _switch(transaction, source, copy)
                return True
            _note(transaction, copy, part.after)
            return False

        try:
            options = AS_IT_COMES.pinned(None, part.key)
            return self._writing.commit(part.name, operation, options, documents=added)
        except (CollectionNotFoundError, ErasedMeanwhileError, ReembeddedMeanwhileError):
            return False

    def tell(self, part: Part, error: str, *, is_final: bool) -> None:
        """Let a re-embedding fail for that reason, or only say why it does not get on. Nothing is said when it has gone
        on meanwhile, or something was erased that the reason may name."""
        status = Status.FAILED if is_final else Status.RUNNING
        if len(error) > MAX_ERROR_CHARACTERS:
            error = error[: MAX_ERROR_CHARACTERS - 1] + "…"

        def operation(transaction: Transaction) -> None:
            check_nothing_erased(transaction, part.erasures)
            copy = find_collection(transaction, part.name)
            if (copy.key, _mark(copy)) == (part.key, part.before):
                _note(transaction, copy, replace(part.before, status=status, error=error))

        if is_final or error != part.before.error:
            try:
                self._writing.commit(part.name, operation, AS_IT_COMES, deletes=True)
            except (CollectionNotFoundError, ErasedMeanwhileError):
                return


def _batch(part: Part, vectors: Vector) -> DocumentBatch:
    return DocumentBatch(
        ids=[each.id for each in part.documents],
        texts=[each.text for each in part.documents],
        metadatas=[each.metadata for each in part.documents],
        embeddings=np.asarray(vectors, np.float32),
        extras={row: each.extras for row, each in enumerate(part.documents) if each.extras != NO_EXTRAS},
    )


def _check_dimension(part: Part, copy: Collection, vectors: Vector) -> None:
    """Raise InvalidInputError when vectors have another dimension than those of the parts before."""
    before, now = copy.dimension, vectors.shape[1]
    if before not in (None, now):
        raise InvalidInputError(
            f"'{part.model}' makes vectors of dimension {now} by now, and made some of {before} before: cancel the "
            "re-embedding and begin anew",
            code="dimension_mismatch",
            expected=before,
            actual=now,
        )


def _check_may_begin(source: Collection, known: Collection, mark: Mark, embedding: Metadata) -> None:
    """Raise ConflictError when what stands beside a collection has to go first."""
    if mark.status == Status.COMPLETE:
        raise ConflictError(
            f"The old vectors of collection '{source.name}', of '{recorded_model(known.metadata)}', are still "
            "kept: drop them first",
            code="reembedding_old_vectors_kept",
            collection=source.name,
        )
    if mark.status == Status.RUNNING and embedded_by(known.metadata) != embedding:
        raise ConflictError(
            f"Collection '{source.name}' is being re-embedded with '{known.metadata['embedding_model']}' of connection "
            f"'{known.metadata['embedding_connection']}': cancel that first",
            code="reembedding_under_way",
            collection=source.name,
        )


def _switch(transaction: Transaction, source: Collection, copy: Collection, *, is_back: bool = False) -> None:
    revision = max(source.revision, copy.revision) + 1
    mark = Mark(Status.COMPLETE, switched_at=revision, is_back=is_back)
    hidden = {**source.metadata, MARK: asdict(mark)}
    change_places(transaction, source, copy, _described(source, copy.metadata), hidden, revision)


def _described(source: Collection, embedding: Metadata) -> Metadata:
    """Return a collection's metadata when its vectors were made by what `embedding` names. Raises InvalidInputError
    when they are too large with that."""
    try:
        return check_collection_metadata(with_embedded_by(source.metadata, embedding))
    except InvalidInputError as error:
        named = ", ".join(embedded_by(embedding))
        sentence = f"With {named} of the new vectors, {error.message}: make the collection's metadata smaller first"
        raise InvalidInputError(sentence, code=error.code, **error.details) from error


def _state(transaction: Transaction, source: Collection) -> Reembedding:
    copy = beside(transaction, source)
    if copy is None:
        raise ReembeddingNotFoundError(source.name)
    mark = _mark(copy)
    is_complete = mark.status == Status.COMPLETE
    new, old = (source, copy) if is_complete else (copy, source)
    return Reembedding(
        source.name,
        mark.status,
        recorded_connection(new.metadata),
        recorded_model(new.metadata),
        recorded_connection(old.metadata),
        recorded_model(old.metadata),
        source.count,
        source.count if is_complete else min(copy.count, source.count),
        mark.error,
        not mark.is_back and _is_of_all_documents(transaction, source, mark),
    )


def _is_of_all_documents(transaction: Transaction, source: Collection, mark: Mark) -> bool:
    """Return whether the vectors that are kept are those of all documents: nothing was written since the switch."""
    if mark.switched_at is None:
        return False
    changed = positions_since(transaction, source, mark.switched_at, limit=1)
    return changed is not None and not changed.written and not changed.deleted


def _mark(copy: Collection) -> Mark:
    kept = copy.metadata[MARK]
    return Mark(**{**kept, "status": Status(kept["status"])})


def forget_error(transaction: Transaction, collection: Collection) -> None:
    """Forget why the work on the vectors beside a collection failed: the reason may name what is erased."""
    copy = beside(transaction, collection)
    if copy is not None and (mark := _mark(copy)).error is not None:
        _note(transaction, copy, replace(mark, error="Something was erased since, perhaps what the reason named"))


def _note(transaction: Transaction, copy: Collection, mark: Mark) -> None:
    """Keep how far a copy is. The index is not told: no query asks for it."""
    metadata = {**copy.metadata, MARK: asdict(mark)}
    transaction.run(
        "UPDATE collections SET metadata = ?, revision = revision + 1 WHERE key = ?", (dump_json(metadata), copy.key)
    )
