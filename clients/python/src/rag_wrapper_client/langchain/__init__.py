"""A vector store and a retriever for LangChain (`pip install 'rag-wrapper-client[langchain]'`)."""

from importlib.util import find_spec

if find_spec("langchain_core") is None:
    raise ImportError("LangChain is not there: pip install 'rag-wrapper-client[langchain]'")

from rag_wrapper_client.langchain.retriever import RagWrapperRetriever
from rag_wrapper_client.langchain.vector_store import RagWrapperVectorStore

__all__ = ["RagWrapperRetriever", "RagWrapperVectorStore"]
