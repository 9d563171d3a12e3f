"""Which three bytes in a row a text has: what finds the texts that may have a part, without reading them all.

A signature is a mask of 1,024 bits. Each three bytes in a row of the text, in UTF-8, set one of them. A text that has a
part has all bits of the part's signature; one that has these bits may yet be without it, so texts are looked at in the
end. Long texts have most bits, and few are then passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from wrapper.catalog.contract import Sql, Transaction

BITS = 1_024
INTEGERS = BITS // 64
COLUMNS = tuple(f"bits{number}" for number in range(INTEGERS))
LEAST_BYTES = 3
BYTES_AT_ONCE = 1 << 16
"""How much of a text is looked at at a time: each byte takes some twenty bytes of memory meanwhile."""
SPREADING = np.uint32(2_654_435_761)
"""Multiplied with this, numbers that differ little differ in their highest bits."""
SHIFT = np.uint32(32 - 10)

_INSERTED = f"collection_key, position, {', '.join(COLUMNS)}"


def signature(text: str) -> list[int]:
    """Return the bits as signed integers of 64 bits each."""
    content = np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)
    bits = np.zeros(BITS, dtype=np.uint8)
    for start in range(0, len(content) - LEAST_BYTES + 1, BYTES_AT_ONCE):
        some = content[start : start + BYTES_AT_ONCE + LEAST_BYTES - 1].astype(np.uint32)
        three = (some[:-2] << np.uint32(16)) | (some[1:-1] << np.uint32(8)) | some[2:]
        bits[(three * SPREADING) >> SHIFT] = 1
    found: list[int] = np.packbits(bits, bitorder="little").view("<i8").tolist()
    return found


def add(transaction: Transaction, collection_key: int, signatures: Sequence[tuple[int, list[int]]]) -> None:
    """Store signatures of texts, given by (position, bits)."""
    transaction.insert("text_signatures", _INSERTED, [(collection_key, place, *bits) for place, bits in signatures])


def remove(transaction: Transaction, collection_key: int, places: Sequence[int]) -> None:
    doomed = transaction.dialect.one_of("position", places)
    transaction.run(
        f"DELETE FROM text_signatures WHERE collection_key = ? AND {doomed.text}", (collection_key, *doomed.parameters)
    )


def drop(transaction: Transaction, collection_key: int) -> None:
    transaction.run("DELETE FROM text_signatures WHERE collection_key = ?", (collection_key,))


def documents_with(collection_key: int, parts: Iterable[str]) -> Sql:
    """Return `FROM documents d … WHERE …` that finds those documents of a collection whose texts may have all parts.

    Conditions can be added at its end.
    """
    wanted = [0] * INTEGERS
    for part in parts:
        wanted = [has | more for has, more in zip(wanted, signature(part), strict=True)]
    asked = [(column, bits) for column, bits in zip(COLUMNS, wanted, strict=True) if bits]
    if not asked:
        return Sql(f"FROM documents d WHERE d.collection_key = {int(collection_key)}")
    # A cross join runs in the order in which it is written: first the signatures, then each text by its position.
    having = " AND ".join(f"(s.{column} & ?) = ?" for column, _ in asked)
    return Sql(
        "FROM text_signatures s CROSS JOIN documents d WHERE d.position = s.position "
        f"AND s.collection_key = {int(collection_key)} AND {having}",
        tuple(bits for _, bits in asked for _ in range(2)),
    )


def can_tell(parts: Iterable[str]) -> bool:
    """Return whether signatures know anything of these parts."""
    return any(any(signature(part)) for part in parts)
