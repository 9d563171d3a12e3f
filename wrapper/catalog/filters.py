"""Translation of `where` into SQL: one tree, two shapes.

`predicate` asks whether one given document matches (a point lookup by its position); `positions` lists the matches of a
collection. A conjunction is driven from its most selective positive part, counted up to a bound because a count is
cheap and a wrong driver is not; the other parts become predicates on the rows of the driver.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.bounds import bounded
from schemas.errors import TooComplexError
from schemas.records import Collection
from schemas.where import (
    EVERYTHING,
    And,
    Contains,
    Equals,
    Exists,
    HasId,
    In,
    Not,
    Or,
    Ordered,
    Scalar,
    TextContains,
    TextMatches,
    Where,
    all_of,
    negated,
)
from schemas.words.required_parts import required_parts
from wrapper.catalog.contract import Dialect, Sql, Transaction, balanced
from wrapper.catalog.sortable_values import ELEMENT_BIT, encode_element, encode_value
from wrapper.catalog.texts.signatures import can_tell, documents_with

DRIVER_COUNT_BOUND = 2_000
MAX_DRIVERS = 32
MAX_UNITED = 200
"""The most selections in one UNION; SQLite takes 500."""

MAX_LISTED_TEXTS = 32
"""The most parts of texts and expressions for which signatures are gone through one by one: reading the texts once for
all of them is sooner done than that for more."""

MAX_JOINED = 32
"""The most conditions in a conjunction outside a CASE. PostgreSQL makes a join of each, and takes a minute to plan
hundreds of them."""

MAX_CONDITIONS = 2_500
"""The most conditions of a filter, each of which is a SELECT: SQLite takes a second for so many, and five times as long
for twice as many."""
OF_CONDITIONS = ("SELECT 1 FROM ", "SELECT m.position FROM document_fields ", "SELECT d.position FROM ")
"""How these SELECTs begin; others are about those within them."""

SHALLOW = 4
"""The levels of conjunctions and disjunctions up to which conditions keep their order, and matches are listed part by
part. The parser of SQLite has room for a hundred symbols, and a level takes three to twelve of them that way."""

TEXTLESS = '%"textless":true%'
"""What the extras of a document without a text are like."""
_SQL_OPERATORS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


@dataclass(frozen=True, slots=True)
class _ContainsAny:
    """The field holds a list, and one of the values is an element of it."""

    field: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class _RowConditions:
    """Conditions on the row of a document, all of which are looked at at once."""

    operator: str
    parts: tuple[RowLeaf, ...]


Leaf = Equals | Ordered | In | Contains | Exists | _ContainsAny
RowLeaf = HasId | TextContains | TextMatches
_Merged = Where | _ContainsAny
_Condition = _Merged | _RowConditions


def predicate(transaction: Transaction, collection_key: int, where: Where, position: str) -> Sql:
    """Return a condition that holds for documents that match; `position` is the SQL name of the document's position:
    `d.position` in statements whose `d` are `documents`."""
    is_deep = _levels(where) > SHALLOW
    condition = _condition(transaction, collection_key, where, position, is_deep=is_deep)
    _check_conditions(condition)
    if isinstance(where, And) and leaves(where) > MAX_JOINED:
        return Sql(f"CASE WHEN {condition.text} THEN TRUE ELSE FALSE END", condition.parameters)
    return Sql(f"({condition.text})", condition.parameters) if is_deep else condition


def _condition(
    transaction: Transaction, collection_key: int, where: _Condition, position: str, *, is_deep: bool
) -> Sql:
    """Return what `predicate` does; of a filter that `is_deep` without the parentheses around a conjunction."""

    def of(part: _Condition) -> Sql:
        return _condition(transaction, collection_key, part, position, is_deep=is_deep)

    def negation_of(part: _Condition) -> Sql:
        if not isinstance(part, _ContainsAny | _RowConditions):
            return of(Not(part))
        inner = of(part)
        return Sql(f"NOT {inner.text}", inner.parameters)

    match where:
        case And((Ordered() as lower, Ordered() as upper)) if _is_range(lower, upper):
            return _of_document(position, lower.field, _between(transaction.dialect, lower, upper, "x"))
        case And(parts):
            excluded = [part.part for part in parts if isinstance(part, Not)]
            required = _with_ranges([part for part in parts if not isinstance(part, Not)])
            conditions = [of(part) for part in _by_row(" AND ", required)]
            conditions += [negation_of(part) for part in _by_row(" OR ", _merged(excluded))]
            return _joined(" AND ", conditions, empty="TRUE", is_deep=is_deep)
        case Or(parts):
            either = _joined(
                " OR ", [of(part) for part in _by_row(" OR ", _merged(parts))], empty="FALSE", is_deep=is_deep
            )
            return Sql(f"({either.text})", either.parameters) if is_deep else either
        case Not(And(parts)):
            return of(Or(tuple(map(negated, parts))))
        case Not(Or(parts)):
            return of(And(tuple(map(negated, parts))))
        case Not(part):
            inner = of(part)
            return Sql(f"NOT {inner.text}", inner.parameters)
        case HasId() | TextContains() | TextMatches():
            return _of_row(position, _in_row(transaction, collection_key, where))
        case _RowConditions(operator, each):
            texts = [part.part for part in each if isinstance(part, TextContains)] if operator == " OR " else []
            others = [part for part in each if not (texts and isinstance(part, TextContains))]
            conditions = [_in_row(transaction, collection_key, part) for part in others]
            if texts:
                conditions.append(_with_text(transaction.dialect.text_contains_any(texts)))
            return _of_row(position, _joined(operator, conditions, empty="", is_deep=False))
        case _:
            holds = _holds(transaction.dialect, where, "x")
            # A bare list would be searched value by value, thousands of times for each document.
            condition = f"({holds.text}) IS TRUE" if isinstance(where, In | _ContainsAny) else holds.text
            return _of_document(position, where.field, Sql(condition, holds.parameters))


def positions(transaction: Transaction, collection_key: int, where: _Merged) -> Sql:
    """Return a `SELECT m.position FROM … m WHERE …` of all matches, each once, in no particular order.

    Conditions can be added at its end.
    """
    match where:
        case Or(parts) if _is_listed(where):
            return _united([positions(transaction, collection_key, part) for part in _merged(parts)])
        case And((Ordered() as lower, Ordered() as upper)) if _is_range(lower, upper):
            return _of_collection(collection_key, lower.field, _between(transaction.dialect, lower, upper, "m"))
        case And(parts) if any(_is_listed(part) for part in parts):
            joined = _with_ranges(parts)
            able: list[Where] = [part for part in joined if _is_listed(part)]
            indexed: list[Where] = [part for part in able if not isinstance(part, TextContains | TextMatches)]
            driver, driven = _most_selective(transaction, collection_key, (indexed or able)[:MAX_DRIVERS])
            told = next((part for part in able if can_tell(_required(part))), None)
            if indexed and told and _count(transaction, driven, DRIVER_COUNT_BOUND) == DRIVER_COUNT_BOUND:
                # Where nothing else is selective, texts are told apart by their signatures.
                driver, driven = told, positions(transaction, collection_key, told)
            others = And(tuple(part for part in joined if part is not driver))
            rest = predicate(transaction, collection_key, others, "m.position")
            return Sql(f"{driven.text} AND {rest.text}", driven.parameters + rest.parameters)
        case And() | Or() | Not():
            return in_order(transaction, collection_key, where)
        case HasId(ids):
            named = transaction.dialect.with_ids(ids)
            mine = f"SELECT d.position FROM documents d WHERE d.collection_key = {int(collection_key)} AND {named.text}"
            return Sql(f"SELECT m.position FROM ({mine}) m WHERE TRUE", named.parameters)
        case TextContains() | TextMatches():
            candidates = documents_with(collection_key, _required(where))
            condition = _text(transaction, collection_key, where)
            mine = f"SELECT d.position {candidates.text} AND {condition.text}"
            return Sql(f"SELECT m.position FROM ({mine}) m WHERE TRUE", candidates.parameters + condition.parameters)
        case _:
            return _of_collection(collection_key, where.field, _holds(transaction.dialect, where, "m"))


def in_order(transaction: Transaction, collection_key: int, where: Where) -> Sql:
    """Return a SELECT of the same positions that reads them along the order of insertion.

    It is meant for filters so broad that few documents are passed over.
    """
    scan = Sql("SELECT m.position FROM documents m WHERE m.collection_key = ?", (collection_key,))
    if where == EVERYTHING:
        return scan
    condition = predicate(transaction, collection_key, where, "m.position")
    return Sql(f"{scan.text} AND {condition.text}", scan.parameters + condition.parameters)


def count(transaction: Transaction, collection_key: int, where: Where, documents_in_collection: int) -> int:
    """Return exactly how many documents match."""
    if where == EVERYTHING:
        return documents_in_collection
    if isinstance(where, Not):
        return documents_in_collection - count(transaction, collection_key, where.part, documents_in_collection)
    matching = positions(transaction, collection_key, where)
    counting = matching.text.replace("SELECT m.position", "SELECT count(*)", 1)
    return int(transaction.value(counting, matching.parameters))


def any_matches(transaction: Transaction, collection_key: int, where: Where) -> bool:
    """Return whether any document matches, without counting them."""
    matching = positions(transaction, collection_key, where)
    return transaction.row(f"{matching.text} LIMIT 1", matching.parameters) is not None


def had_by_nobody(
    transaction: Transaction, collection: Collection, names: Sequence[str], seen: Where = EVERYTHING
) -> tuple[str, ...]:
    """Return the fields that no document has of those that match `seen`, if there are any such documents."""
    if collection.count == 0 or not names:
        return ()
    if seen == EVERYTHING:
        held = "SELECT 1 FROM document_fields WHERE collection_key = ? AND path = ? LIMIT 1"
        return tuple(name for name in names if transaction.row(held, (collection.key, bounded(name))) is None)
    if not any_matches(transaction, collection.key, seen):
        return ()
    return tuple(name for name in names if not any_matches(transaction, collection.key, all_of(seen, Exists(name))))


def _most_selective(transaction: Transaction, collection_key: int, parts: list[Where]) -> tuple[Where, Sql]:
    """Return the part with the fewest matches, and the SELECT of its positions.

    The SELECT is returned because building it a second time would double the work with each level of nesting.
    """
    best = parts[0], positions(transaction, collection_key, parts[0])
    if len(parts) == 1:
        return best
    fewest = DRIVER_COUNT_BOUND
    for part in parts:
        matching = best[1] if part is best[0] else positions(transaction, collection_key, part)
        matches = _count(transaction, matching, fewest)
        if matches < fewest:
            best, fewest = (part, matching), matches
        if fewest == 0:
            break
    return best


def _count(transaction: Transaction, matching: Sql, most: int) -> int:
    """Return how many documents match, at most `most`."""
    counting = f"SELECT count(*) FROM ({matching.text} LIMIT ?) few"
    return int(transaction.value(counting, (*matching.parameters, most)))


def _required(where: Where) -> list[str]:
    """Return what a text must have, letter for letter, that is as wanted."""
    match where:
        case TextContains(part):
            return [part]
        case TextMatches(pattern):
            return required_parts(pattern)
    return []


def digest_of(where: Where) -> bytes:
    """Return what tells a filter from all others, however long it is. By its text: in Python, the filters for 1 and for
    true are equal."""
    return hashlib.sha256(repr(where).encode("utf-8", "surrogatepass")).digest()


def _by_row(operator: str, parts: Sequence[_Merged]) -> list[_Condition]:
    """Return the parts of a conjunction or disjunction, with those that are about the row of a document as one."""
    rows = tuple(part for part in parts if isinstance(part, RowLeaf))
    if len(rows) < 2:
        return list(parts)
    return [*(part for part in parts if not isinstance(part, RowLeaf)), _RowConditions(operator, rows)]


def _in_row(transaction: Transaction, collection_key: int, where: RowLeaf) -> Sql:
    """Return the condition that a row of `documents d` is as wanted."""
    if isinstance(where, HasId):
        return transaction.dialect.with_ids(where.ids)
    return _text(transaction, collection_key, where)


def _of_row(position: str, condition: Sql) -> Sql:
    """Return whether the row `d` of the document at this position fulfils a condition."""
    if position == "d.position":  # the statement has that row, and within it the name would mean another one
        return Sql(f"({condition.text}) IS TRUE", condition.parameters)
    return Sql(
        f"EXISTS (SELECT 1 FROM documents d WHERE d.position = {position} AND {condition.text})", condition.parameters
    )


def _text(transaction: Transaction, collection_key: int, where: TextContains | TextMatches) -> Sql:
    """Return the condition that the text of a row of `documents d` is as wanted."""
    if isinstance(where, TextContains):
        condition = transaction.dialect.text_contains(where.part)
    else:
        condition = transaction.text_matches(collection_key, where.pattern)
    return _with_text(condition)


def _with_text(condition: Sql) -> Sql:
    # What has extras may have no text at all.
    return Sql(f"{condition.text} AND (d.extras IS NULL OR d.extras NOT LIKE ?)", (*condition.parameters, TEXTLESS))


def leaves(where: Where) -> int:
    """Return how many conditions a filter has."""
    match where:
        case And(parts) | Or(parts):
            return sum(leaves(part) for part in parts)
        case Not(part):
            return leaves(part)
        case _:
            return 1


def _levels(where: Where) -> int:
    """Return how many conjunctions and disjunctions are within one another."""
    match where:
        case And(parts) | Or(parts):
            return 1 + max(map(_levels, parts), default=0)
        case Not(part):
            return _levels(part)
        case _:
            return 0


def _is_listed(where: Where) -> bool:
    """Return whether the matches of a filter can be listed part by part, rather than among all documents."""
    return _positive(where) and _levels(where) <= SHALLOW and _texts(where) <= MAX_LISTED_TEXTS


def _texts(where: Where) -> int:
    match where:
        case And(parts) | Or(parts):
            return sum(map(_texts, parts))
        case _:
            return isinstance(where, TextContains | TextMatches)


def _positive(where: Where) -> bool:
    match where:
        case And(parts):
            return any(_positive(part) for part in parts)
        case Or(parts):
            return all(_positive(part) for part in parts)
        case Not():
            return False
        case _:
            return True


def _united(branches: list[Sql]) -> Sql:
    while len(branches) > MAX_UNITED:
        branches = [_united(branches[start : start + MAX_UNITED]) for start in range(0, len(branches), MAX_UNITED)]
    union = " UNION ".join(branch.text for branch in branches)
    parameters = tuple(value for branch in branches for value in branch.parameters)
    united = Sql(f"SELECT m.position FROM ({union}) m WHERE TRUE", parameters)
    _check_conditions(united)
    return united


def _check_conditions(sql: Sql) -> None:
    """Raise TooComplexError for a statement with more than `MAX_CONDITIONS` that could not be joined to others."""
    if sum(map(sql.text.count, OF_CONDITIONS)) > MAX_CONDITIONS:
        beside = "beside values that are alternatives for one field, ids, and parts of texts to be found"
        raise TooComplexError(f"A filter has at most {MAX_CONDITIONS:,} conditions, {beside}", limit=MAX_CONDITIONS)


def _merged(parts: Sequence[Where]) -> list[_Merged]:
    """Return the branches of an `$or`, with all that ask for one of several values of a field, or ids, as one."""
    values: dict[str, list[Scalar]] = {}
    elements: dict[str, list[Scalar]] = {}
    ids: list[str] = []
    others: list[_Merged] = []
    for part in parts:
        match part:
            case Equals():
                values.setdefault(part.field, []).append(part.value)
            case In():
                values.setdefault(part.field, []).extend(part.values)
            case Contains():
                elements.setdefault(part.field, []).append(part.value)
            case HasId():
                ids += part.ids
            case _:
                others.append(part)
    merged: list[_Merged] = [In(field, tuple(wanted)) for field, wanted in values.items()]
    merged += [_ContainsAny(field, tuple(wanted)) for field, wanted in elements.items()]
    return [*merged, *([HasId(tuple(ids))] if ids else []), *others]


def _of_document(position: str, field: str, holds: Sql) -> Sql:
    """Return the condition that a document has a value in the field for which `holds`, of `x`, holds."""
    return Sql(
        f"EXISTS (SELECT 1 FROM document_fields x WHERE x.position = {position} AND x.path = ? AND {holds.text})",
        (bounded(field), *holds.parameters),
    )


def _of_collection(collection_key: int, field: str, holds: Sql) -> Sql:
    """Return the SELECT of the documents that have a value in the field for which `holds`, of `m`, holds."""
    return Sql(
        f"SELECT m.position FROM document_fields m WHERE m.collection_key = {int(collection_key)} "
        f"AND m.path = ? AND {holds.text}",
        (bounded(field), *holds.parameters),
    )


def _with_ranges(parts: Sequence[Where]) -> list[Where]:
    """Return the parts of a conjunction, with the narrowest bounds of one field as one part, in the order (lower,
    upper): the database then reads what is between them, and not all that is on one side.

    A document has one number or string in a field, so both bounds are about the same value.
    """
    lower: dict[tuple[str, bytes], Ordered] = {}
    upper: dict[tuple[str, bytes], Ordered] = {}
    for part in parts:
        if isinstance(part, Ordered):
            bounds, narrower = (lower, max) if _is_lower(part) else (upper, min)
            bounds[_ordered(part)] = narrower(part, bounds.get(_ordered(part), part), key=_narrowness)
    ranges = {key: And((lower[key], upper[key])) for key in lower.keys() & upper.keys()}
    others = [part for part in parts if not (isinstance(part, Ordered) and _ordered(part) in ranges)]
    return [*others, *(ranges[key] for key in lower if key in ranges)]


def _is_range(lower: Ordered, upper: Ordered) -> bool:
    return _ordered(lower) == _ordered(upper) and _is_lower(lower) and not _is_lower(upper)


def _is_lower(bound: Ordered) -> bool:
    return bound.operator in ("$gt", "$gte")


def _ordered(bound: Ordered) -> tuple[str, bytes]:
    """Return what is ordered: the values of a field and of a type."""
    return bound.field, encode_value(bound.value)[:1]


def _narrowness(bound: Ordered) -> tuple[bytes, bool]:
    """Return by what bounds of one side compare: the largest lower bound is the narrowest, and the smallest upper."""
    return encode_value(bound.value), bound.operator in ("$gt", "$lte")


def _between(dialect: Dialect, lower: Ordered, upper: Ordered, alias: str) -> Sql:
    sides = [
        dialect.compared(alias, _SQL_OPERATORS[each.operator], encode_value(each.value)) for each in (lower, upper)
    ]
    return Sql(" AND ".join(side.text for side in sides), tuple(value for side in sides for value in side.parameters))


def _joined(operator: str, parts: list[Sql], *, empty: str, is_deep: bool) -> Sql:
    if not parts:
        return Sql(empty)
    if is_deep:
        # What a parser has read on its left it holds as one symbol, so what is deep, and therefore long, comes first.
        parts = sorted(parts, key=lambda part: -len(part.text))
    parameters = tuple(value for part in parts for value in part.parameters)
    texts = [part.text for part in parts]
    if is_deep and len(texts) > 1:
        return Sql(f"{texts[0]}{operator}{balanced(operator, texts[1:])}", parameters)
    return Sql(balanced(operator, texts), parameters)


def _holds(dialect: Dialect, leaf: Leaf, alias: str) -> Sql:
    match leaf:
        case Equals():
            return dialect.compared(alias, "=", encode_value(leaf.value))
        case In():
            return dialect.among(alias, [encode_value(value) for value in leaf.values])
        case Contains():
            return dialect.compared(alias, "=", encode_element(leaf.value))
        case _ContainsAny():
            return dialect.among(alias, [encode_element(value) for value in leaf.values])
        case Exists():
            return dialect.compared(alias, "<", bytes((ELEMENT_BIT,)))
        case Ordered():
            operand = encode_value(leaf.value)
            kind, after = operand[:1], bytes((operand[0] + 1,))
            this_side = dialect.compared(alias, _SQL_OPERATORS[leaf.operator], operand)
            same_type = dialect.compared(alias, *(("<", after) if _is_lower(leaf) else (">=", kind)))
            return Sql(f"{this_side.text} AND {same_type.text}", this_side.parameters + same_type.parameters)
