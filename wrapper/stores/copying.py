"""Copies of collections, made in parts beside other writes and given their name when they are complete.

A copy that is under way has a name that no caller may give. What a crash leaves of it is swept.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np
import structlog

from schemas.errors import CollectionNotFoundError, TooSlowError
from schemas.names import is_elsewhere
from schemas.records import NO_EXTRAS, Collection, Document, DocumentBatch
from schemas.storage.erasure_count import check_nothing_erased, erasures
from schemas.storage.outcomes import CollectionOutcome, WriteOutcome
from wrapper.catalog import reads, writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import outbox
from wrapper.catalog.index_state.adoptions import writable
from wrapper.catalog.names import collection_writes, renaming
from wrapper.catalog.names.taken import check_free
from wrapper.catalog.preparing import DocumentWrite
from wrapper.catalog.rows import names_between
from wrapper.writing import AS_IT_COMES, WriteOptions, Writing, Written

log = structlog.get_logger(__name__)

COPYING, AFTER_COPYING = "/copying/", "/copying0"
"""How the names of copies under way begin, and what sorts after them all."""
COPIED_AT_ONCE = 500
MOST_SECONDS = 3_600.0


class Copying:
    """`clock` tells the time since the epoch in seconds."""

    def __init__(self, catalog: Catalog, writing: Writing, clock: Callable[[], float] = time.time) -> None:
        self._catalog = catalog
        self._writing = writing
        self._clock = clock

    def copy(self, name: str, new_name: str, options: WriteOptions) -> Written[CollectionOutcome]:
        written = self._writing.once(
            CollectionOutcome, options, lambda: self._copy(name, new_name, options), collection=new_name
        )
        outcome = written.outcome
        assert isinstance(outcome, CollectionOutcome)
        indexed = self._writing.is_indexed(outcome.outbox_id, options)
        return replace(written, version=outcome.version, indexed=indexed, awaited=self._writing.awaits_index(options))

    def sweep(self) -> bool:
        """Delete a copy that nobody makes any more. Return whether there was one."""
        with self._catalog.read() as transaction:
            names = names_between(transaction, COPYING, AFTER_COPYING)
        under_way = [each for each in names if not is_elsewhere(each)]  # a tenant may be called so, too
        for name in under_way:
            began_at = int(name.removeprefix(COPYING).partition("-")[0])
            if self._clock() - began_at > 2 * MOST_SECONDS:
                self._give_up(name)
                return True
        return False

    def _copy(self, name: str, new_name: str, options: WriteOptions) -> CollectionOutcome:
        began_at = self._clock()
        under_way = f"{COPYING}{int(began_at)}-{uuid.uuid4()}"
        with ExitStack() as undoing:
            # The metadata, which name the model of the vectors, are of the snapshot that has the documents.
            with self._catalog.read() as transaction:
                since = erasures(transaction)
                source = writable(transaction, name)
                self._begin(source, under_way, new_name, options)
                undoing.callback(self._give_up, under_way)
                for block in reads.everything(transaction, source, block=COPIED_AT_ONCE):
                    if self._clock() - began_at > MOST_SECONDS:
                        raise TooSlowError(f"The copy of '{name}' took longer than {MOST_SECONDS:,.0f} seconds")
                    self._add(under_way, block, since)

            def complete(transaction: Transaction) -> CollectionOutcome:
                check_nothing_erased(transaction, since)
                copied, outcome = renaming.rename(transaction, under_way, new_name)
                entry = outbox.newest_of(transaction, copied.key)
                return CollectionOutcome.of(copied, replace(outcome, outbox_id=entry, created=copied.count))

            completed = self._writing.commit(new_name, complete, replace(options, if_match=None), creates=True)
            undoing.pop_all()
            return completed

    def _begin(self, source: Collection, under_way: str, new_name: str, options: WriteOptions) -> None:
        def operation(transaction: Transaction) -> None:
            check_free(transaction, new_name)
            collection_writes.create_collection(
                transaction,
                under_way,
                source.metadata,
                source.metric,
                configuration=source.configuration,
                engine_calls_it=new_name,
                engine_records=source.engine_records,
            )

        self._writing.commit(source.name, operation, options)

    def _add(self, under_way: str, block: list[Document], since: int) -> None:
        batch = DocumentBatch(
            ids=[each.id for each in block],
            texts=[each.text for each in block],
            metadatas=[each.metadata for each in block],
            embeddings=np.stack([each.embedding for each in block if each.embedding is not None]),
            extras={row: each.extras for row, each in enumerate(block) if each.extras != NO_EXTRAS},
        )

        def operation(transaction: Transaction) -> WriteOutcome:
            check_nothing_erased(transaction, since)
            return added.store(transaction)

        added = DocumentWrite(partial(writes.plan_addition, name=under_way, batch=batch))
        self._writing.commit(under_way, operation, AS_IT_COMES, documents=added)

    def _give_up(self, under_way: str) -> None:
        try:
            self._writing.commit(
                under_way,
                lambda transaction: collection_writes.delete_collection(transaction, under_way),
                AS_IT_COMES,
                deletes=True,
            )
        except CollectionNotFoundError:
            return
        except Exception as error:
            log.warning("a copy that was given up is swept later", reason=str(error))
