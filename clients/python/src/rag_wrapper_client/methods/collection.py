"""Methods about collections and their indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rag_wrapper_client.exchanges import Exchange, WaitFor, ask, at, change, get, given, repeatable, write
from rag_wrapper_client.operations import listing, operation
from rag_wrapper_client.pages import Listing, paged
from rag_wrapper_client.wire.service import DropVectorsAnswer, Reembedding
from rag_wrapper_client.wire.shared import Index, Metric
from rag_wrapper_client.wire.storage import (
    Alias,
    Collection,
    CopyCollectionAnswer,
    DeleteAliasAnswer,
    DeleteCollectionAnswer,
    ListAliasesAnswer,
    ListDatabasesOfAllAnswer,
    MadeCollection,
    MergeCollectionMetadataAnswer,
    PutAliasAnswer,
    RenameCollectionAnswer,
    ReplaceCollectionMetadataAnswer,
)


class CollectionMethods:
    @listing
    def collections(
        self, *, prefix: str | None = None, with_index: bool = False, page_size: int = 1000
    ) -> Listing[Collection]:
        """Iterate over the collections by name, those that begin with `prefix`; `with_index` tells of their indexes."""
        include = "index" if with_index else None

        return paged(
            lambda cursor: get("/collections", prefix=prefix, include=include, limit=page_size, cursor=cursor),
            "collections",
        )

    @operation
    def create_collection(
        self,
        name: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        metric: Metric = "cosine",
        embedding_provider: str | None = None,
        embedding_model: str | None = None,
        get_or_create: bool = False,
        idempotency_key: str | None = None,
        wait: WaitFor | None = None,
    ) -> Exchange[MadeCollection]:
        """Create an empty collection. When there is one of this name, it is described with `get_or_create`, and
        ConflictError raised without."""
        body = given(
            {
                "name": name,
                "metadata": metadata,
                "metric": metric,
                "embedding_provider": embedding_provider,
                "embedding_model": embedding_model,
            }
        )
        wanted = True if get_or_create else None
        return ask(
            write("POST", "/collections", body, idempotency_key=idempotency_key, wait=wait, get_or_create=wanted)
        )

    @operation
    def collection(self, name: str, *, if_none_match: str | None = None) -> Exchange[Collection]:
        """Describe a collection: its count, metadata, dimension, metric and revision."""
        return ask(get(at("/collections/{}", name), if_none_match=if_none_match))

    @operation
    def delete_collection(
        self, name: str, *, if_match: str | None = None, idempotency_key: str | None = None, wait: WaitFor | None = None
    ) -> Exchange[DeleteCollectionAnswer]:
        """Delete a collection and its documents."""
        path = at("/collections/{}", name)
        return ask(write("DELETE", path, if_match=if_match, idempotency_key=idempotency_key, wait=wait))

    @operation
    def rename_collection(
        self,
        name: str,
        new_name: str,
        *,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        wait: WaitFor | None = None,
    ) -> Exchange[RenameCollectionAnswer]:
        """Give a collection another name; its id and documents stay."""
        path = at("/collections/{}", name)
        return ask(
            write("PATCH", path, {"name": new_name}, if_match=if_match, idempotency_key=idempotency_key, wait=wait)
        )

    @operation
    def copy_collection(
        self,
        name: str,
        copy_name: str,
        *,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        wait: WaitFor | None = None,
    ) -> Exchange[CopyCollectionAnswer]:
        """Copy a collection with its documents, at one revision."""
        path = at("/collections/{}/copy", name)
        return ask(
            write("POST", path, {"name": copy_name}, if_match=if_match, idempotency_key=idempotency_key, wait=wait)
        )

    @operation
    def databases(self) -> Exchange[ListDatabasesOfAllAnswer]:
        """List the databases, by tenant and name."""
        return ask(get("/databases"))

    @operation
    def aliases(self, *, collection: str | None = None) -> Exchange[ListAliasesAnswer]:
        """List the aliases, all or those of a collection."""
        return ask(get("/aliases", collection=collection))

    @operation
    def alias(self, alias: str) -> Exchange[Alias]:
        """Tell which collection an alias stands for."""
        return ask(get(at("/aliases/{}", alias)))

    @operation
    def set_alias(self, alias: str, collection: str, *, idempotency_key: str | None = None) -> Exchange[PutAliasAnswer]:
        """Let an alias stand for a collection from now on."""
        path = at("/aliases/{}", alias)
        return ask(write("PUT", path, {"collection": collection}, idempotency_key=idempotency_key))

    @operation
    def delete_alias(self, alias: str, *, idempotency_key: str | None = None) -> Exchange[DeleteAliasAnswer]:
        """Delete an alias; its collection stays."""
        return ask(write("DELETE", at("/aliases/{}", alias), idempotency_key=idempotency_key))

    @operation
    def replace_metadata(
        self,
        name: str,
        metadata: Mapping[str, Any],
        *,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        wait: WaitFor | None = None,
    ) -> Exchange[ReplaceCollectionMetadataAnswer]:
        """Replace a collection's metadata."""
        path = at("/collections/{}/metadata", name)
        return ask(
            write("PUT", path, {"metadata": metadata}, if_match=if_match, idempotency_key=idempotency_key, wait=wait)
        )

    @operation
    def merge_metadata(
        self,
        name: str,
        metadata: Mapping[str, Any],
        *,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        wait: WaitFor | None = None,
    ) -> Exchange[MergeCollectionMetadataAnswer]:
        """Merge into a collection's metadata; None removes a key."""
        path = at("/collections/{}/metadata", name)
        return ask(
            write("PATCH", path, {"metadata": metadata}, if_match=if_match, idempotency_key=idempotency_key, wait=wait)
        )

    @operation
    def index(self, name: str) -> Exchange[Index]:
        """Tell what is known of a collection's vector index."""
        return ask(get(at("/collections/{}/index", name)))

    @operation
    def check_index(self, name: str) -> Exchange[Index]:
        """Have the index looked at and its recall measured. Returns what was known before."""
        return ask(repeatable(change("POST", at("/collections/{}/index/check", name), {})))

    @operation
    def rebuild_index(self, name: str, *, records: Literal["full", "vectors"] | None = None) -> Exchange[Index]:
        """Have the index rebuilt, and change what the engine's records have: everything, or ids and vectors only.
        Returns what was known before."""
        return ask(repeatable(change("POST", at("/collections/{}/index/rebuild", name), {}, records=records)))

    @operation
    def reembed(self, name: str, *, connection: str) -> Exchange[Reembedding]:
        """Have vectors made by the model of that connection, to which the collection is switched when they are
        complete."""
        return ask(repeatable(change("POST", at("/collections/{}/reembed", name), {"connection": connection})))

    @operation
    def switch_back(self, name: str) -> Exchange[Reembedding]:
        """Switch to the vectors from before a re-embedding: as long as no document was written since."""
        return ask(repeatable(change("POST", at("/collections/{}/reembed", name), {"back": True})))

    @operation
    def reembedding(self, name: str) -> Exchange[Reembedding]:
        """Tell how far a re-embedding is."""
        return ask(get(at("/collections/{}/reembed", name)))

    @operation
    def drop_vectors(self, name: str) -> Exchange[DropVectorsAnswer]:
        """Cancel a re-embedding, or drop the old vectors."""
        return ask(change("DELETE", at("/collections/{}/reembed", name)))
