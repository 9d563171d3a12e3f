"""The words by which what was erased is looked for, and the tables that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schemas.records import Document
from wrapper.catalog.contract import Transaction
from wrapper.catalog.names.beside import belongs_to
from wrapper.catalog.postgres.own_tables import own_tables

MOST_PROBES = 12
"""The most documents whose bytes are looked for: each costs a search through all files."""
PROBE_CHARACTERS = 40
LEAST_CHARACTERS = 12
_COLUMNS = {
    "sqlite": "SELECT m.name, p.name FROM sqlite_master m JOIN pragma_table_info(m.name) p WHERE m.type = 'table' "
    "AND (p.type LIKE '%TEXT%' OR p.type LIKE '%CHAR%')",
    "postgresql": "SELECT table_name, column_name FROM information_schema.columns "
    "WHERE table_schema = current_schema() AND data_type IN ('text', 'character varying')",
}


def probe_of(document: Document) -> bytes | None:
    """Return some words of a text, written in files of any kind as they are; None when it has too few."""
    plain = max(_runs(document.text), key=len, default="")
    start = max(0, (len(plain) - PROBE_CHARACTERS) // 2)
    found = plain[start : start + PROBE_CHARACTERS]
    return found.encode() if len(found) >= LEAST_CHARACTERS else None


def spread(documents: Sequence[Document]) -> tuple[bytes, ...]:
    """Return the probes of some of the documents, from the first to the last."""
    some = documents[:: max(1, -(-len(documents) // MOST_PROBES))]
    return tuple(dict.fromkeys(probe for each in some if (probe := probe_of(each)) is not None))


def tables_with(transaction: Transaction, kind: str, probe: bytes) -> list[str]:
    """Return the tables whose rows hold the words of a probe: for documents the names of their collections, also of
    those beside which they stand."""
    words = probe.decode()
    rows = transaction.rows(
        "SELECT DISTINCT c.name FROM documents d JOIN collections c ON c.key = d.collection_key "
        "WHERE d.text <> replace(d.text, ?, '')",
        (words,),
    )
    shown = [(belongs_to(transaction, name), name) for (name,) in rows]
    found = [f"collection '{name if source is None else source.name}'" for source, name in shown]
    ours = own_tables(transaction.rows) if kind == "postgresql" else None
    for table, column in transaction.rows(_COLUMNS[kind]):
        if ours is not None and table not in ours:
            continue
        is_text = (table, column) == ("documents", "text")
        if not is_text and transaction.row(
            f'SELECT 1 FROM "{table}" WHERE "{column}" <> replace("{column}", ?, \'\') LIMIT 1', (words,)
        ):
            found.append(f"table '{table}'")
    return found


def _runs(text: str) -> Iterator[str]:
    """Yield the parts of a text between characters that JSON spells otherwise."""
    run = ""
    for character in text[:100_000]:
        if character in '"\\' or not character.isprintable():
            yield run.strip()
            run = ""
        else:
            run += character
    yield run.strip()
