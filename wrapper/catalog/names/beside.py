"""The collection that stands beside another one: its documents with the vectors of another model.

It has a name that no caller may give, and is known by the id of the collection that it belongs to. Nobody finds, counts
or lists it. When the two change places, everything that clients know a collection by stays: name, id and aliases.
"""

from __future__ import annotations

from schemas.records import Collection, Metadata
from schemas.storage.reembedding import with_function_of
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import outbox
from wrapper.catalog.rows import collection_by_id, dump_json, named, names_between

BESIDE, AFTER_BESIDE = "/.reembedding/", "/.reembedding0"
"""How the names of such collections begin, and what sorts after them all."""
_BETWEEN = "/.changing-places"


def beside(transaction: Transaction, collection: Collection) -> Collection | None:
    """Return the collection that stands beside this one, None when there is none."""
    return named(transaction, name_beside(collection))


def with_beside(transaction: Transaction, collection: Collection) -> list[Collection]:
    """Return a collection and, if there is one, that which stands beside it."""
    other = beside(transaction, collection)
    return [collection] if other is None else [collection, other]


def name_beside(collection: Collection) -> str:
    return BESIDE + collection.id


def names_of_all(transaction: Transaction) -> list[str]:
    return names_between(transaction, BESIDE, AFTER_BESIDE)


def belongs_to(transaction: Transaction, name: str) -> Collection | None:
    """Return the collection beside which the one of that name stands, None for one that does not."""
    return collection_by_id(transaction, name.removeprefix(BESIDE)) if name.startswith(BESIDE) else None


def change_places(
    transaction: Transaction,
    shown: Collection,
    hidden: Collection,
    metadata: Metadata,
    hidden_metadata: Metadata,
    revision: int,
) -> None:
    """Let `hidden` be from now on what `shown` was, with this metadata, and that stand beside it.

    What is shown gets a revision that is greater than that of either, so no state has the name of an earlier one.
    Positions and revisions of documents are others than before: what followers have deletions from is not known, so
    they begin anew. What the engine's records have stays, too, by a rebuild where `hidden` has others.
    """
    update = "UPDATE collections SET name = ?, id = ?, metadata = ?, configuration = ?"
    transaction.run("UPDATE collections SET name = ?, id = NULL WHERE key = ?", (_BETWEEN, hidden.key))
    transaction.run(
        f"{update} WHERE key = ?",
        (hidden.name, hidden.id, dump_json(hidden_metadata), shown.configuration, shown.key),
    )
    transaction.run(
        f"{update}, revision = ?, deletions_since = ? WHERE key = ?",
        (
            shown.name,
            shown.id,
            dump_json(metadata),
            with_function_of(shown.configuration, hidden.configuration),
            revision,
            revision,
            hidden.key,
        ),
    )
    for table in ("aliases", "idempotency_keys"):
        transaction.run(f"UPDATE {table} SET collection_key = ? WHERE collection_key = ?", (hidden.key, shown.key))
    outbox.append(transaction, hidden.key, outbox.METADATA, {"name": shown.name})
    outbox.append(transaction, shown.key, outbox.METADATA, {"name": hidden.name})
    records = _records_asked(transaction, shown)
    if records is not None and records != _records_asked(transaction, hidden):
        outbox.append(transaction, hidden.key, outbox.REBUILD, {"name": shown.name, "records": records})


def _records_asked(transaction: Transaction, collection: Collection) -> str | None:
    """Return what the engine's records of a collection have, or are going to have by a rebuild that waits."""
    asked = outbox.payloads(transaction, collection.key, outbox.REBUILD)
    return next((records for each in reversed(asked) if (records := each.get("records"))), collection.engine_records)
