"""The plain model with writes added: what each write of the storage proxy does to a collection."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from providers.contract_tests.model import Json, ModelCollection, ModelDocument, field_value, kind, sort_key


class WritableModel(ModelCollection):
    """A collection whose documents and facets change as the storage proxy's do."""

    def values(self, path: str, where: Json | None = None) -> Counter[tuple[int, Any]]:
        """Return how many matching documents hold each scalar in the field, list elements included, by `sort_key`."""
        counted: Counter[tuple[int, Any]] = Counter()
        for each in self.matching(where or {}):
            value = field_value(each.metadata, path)
            held = value if isinstance(value, list) else [value]
            counted.update({sort_key(item) for item in held if kind(item) is not None})
        return counted

    def remove(self, condition: Callable[[ModelDocument], bool]) -> int:
        kept = [each for each in self.documents if not condition(each)]
        removed = len(self.documents) - len(kept)
        self.documents = kept
        return removed

    def put(self, document: ModelDocument) -> str:
        """Return `created`, `updated` or `unchanged`; a document that exists keeps its place."""
        before = self.by_id(document.id)
        if before is None:
            self.documents.append(document)
            return "created"
        if is_unchanged(before, document):
            return "unchanged"
        before.text, before.metadata, before.embedding = document.text, document.metadata, document.embedding
        return "updated"


def is_unchanged(before: ModelDocument, after: ModelDocument) -> bool:
    return (
        before.text == after.text
        and json.dumps(before.metadata, sort_keys=True) == json.dumps(after.metadata, sort_keys=True)
        and before.embedding.tobytes() == after.embedding.tobytes()
    )


def merged(target: Any, patch: Any) -> Any:
    """Return the merge of RFC 7396, word for word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
