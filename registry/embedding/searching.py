"""Searches of a collection by the embedding of a question, which has to be of the model of its vectors."""

from __future__ import annotations

from dataclasses import replace

from providers.base import RagProvider, SupportsSearch, TellsPlans
from registry.embedding.queries import QueryEmbedding
from schemas.connections import CollectionInfo
from schemas.errors import InvalidInputError
from schemas.records import Match, SearchPlan
from schemas.where import Where


def search_by(
    embedded: QueryEmbedding, search: SupportsSearch, info: CollectionInfo, *, top_k: int, where: Where
) -> tuple[list[Match], SearchPlan | None]:
    """Return the documents nearest to a question, and the plan where the provider tells it.

    Raises EmbeddingMismatchError when the collection's vectors are of another model, and where the provider tells plans
    also when they became so after it was described as `info`; and what the provider raises.
    """
    embedded.check_fits(info)
    if not isinstance(search, TellsPlans):
        return search.search(info.name, embedded.vector, top_k=top_k, where=where), None
    try:
        planned = search.planned_search(info.name, embedded.vector, top_k=top_k, where=where)
    except InvalidInputError:
        # The collection may have vectors of another dimension by now, which is no mistake of who asks.
        if isinstance(search, RagProvider):
            for now in search.collections_named([info.name]):
                embedded.check_fits(now)
        raise
    # Of another dimension it would not have been searched. Who sees nothing of it is not told its dimension.
    embedded.check_fits(replace(planned.collection, dimension=None))
    return planned.matches, planned.plan
