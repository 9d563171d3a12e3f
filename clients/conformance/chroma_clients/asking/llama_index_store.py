"""What LlamaIndex's store for Chroma asks, by itself and below an index of LlamaIndex's."""

from __future__ import annotations

from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.vector_stores.chroma import ChromaVectorStore
from steps import BEARER, HOST, PORT, refused, step

store = ChromaVectorStore.from_params("llama-index", host=HOST, port=PORT, headers=BEARER)
nodes = [
    TextNode(
        id_=f"n{n}",
        text=f"node {n}",
        metadata={"n": n, "kind": "even" if n % 2 == 0 else "odd", "name": f"name {n}"},
        embedding=[float(n), 1.0],
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc{n // 2}")},
    )
    for n in range(6)
]


def where(*conditions, condition=FilterCondition.AND):
    made = [MetadataFilter(key=key, operator=operator, value=value) for key, operator, value in conditions]
    return MetadataFilters(filters=made, condition=condition)


def query(**asked):
    found = store.query(VectorStoreQuery(query_embedding=[1.2, 1.0], **asked))
    return {
        "ids": found.ids,
        "similarities": found.similarities,
        "nodes": [(each.node_id, each.text, each.metadata, each.ref_doc_id) for each in found.nodes],
    }


def left():
    return sorted(each.node_id for each in store.get_nodes(node_ids=None))


step("add", lambda: store.add(nodes))
step("query", lambda: query(similarity_top_k=3))
step("query by mmr", lambda: query(similarity_top_k=3, mode=VectorStoreQueryMode.MMR, mmr_threshold=0.2))
for operator, value in (
    (FilterOperator.EQ, 2),
    (FilterOperator.NE, 2),
    (FilterOperator.GT, 2),
    (FilterOperator.GTE, 2),
    (FilterOperator.LT, 2),
    (FilterOperator.LTE, 2),
    (FilterOperator.IN, [1, 2]),
    (FilterOperator.NIN, [1, 2]),
):
    step(f"filter {operator.name}", lambda o=operator, v=value: query(filters=where(("n", o, v)), similarity_top_k=9))
both = (("n", FilterOperator.GT, 3), ("kind", FilterOperator.EQ, "even"))
step("filter and", lambda: query(filters=where(*both), similarity_top_k=9)["ids"])
step("filter or", lambda: query(filters=where(*both, condition=FilterCondition.OR), similarity_top_k=9)["ids"])
step("without a vector", lambda: store.query(VectorStoreQuery(similarity_top_k=2, filters=where(both[0]))).ids)
step("get nodes", lambda: sorted(each.text for each in store.get_nodes(node_ids=["n1", "n3", "none"])))
step("get nodes by filter", lambda: sorted(each.text for each in store.get_nodes(None, where(both[1]))))
step("delete a document", lambda: (store.delete("doc0"), left()))
step("delete nodes", lambda: (store.delete_nodes(["n2"]), left()))
refused("delete nodes by filter", lambda: (store.delete_nodes(filters=where(("n", FilterOperator.EQ, 3))), left()))
step("clear", lambda: (store.clear(), left()))

embedding = MockEmbedding(embed_dim=8)


def of_an_index():
    other = ChromaVectorStore.from_params("llama-index-2", host=HOST, port=PORT, headers=BEARER)
    made = [TextNode(id_=f"i{n}", text=f"Backups are kept for {n} days. " * 30, metadata={"n": n}) for n in range(20)]
    context = StorageContext.from_defaults(vector_store=other)
    VectorStoreIndex(made, storage_context=context, embed_model=embedding)
    again = VectorStoreIndex.from_vector_store(other, embed_model=embedding)
    found = again.as_retriever(similarity_top_k=3, filters=where(("n", FilterOperator.LT, 3))).retrieve("backups")
    return sorted(each.node.node_id for each in found), [each.score for each in found]


step("an index", of_an_index)
