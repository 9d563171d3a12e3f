"""What can be asked of the service, a module for each subject. Each method is written here once, for all clients."""

from __future__ import annotations

from rag_wrapper_client.methods.collection import CollectionMethods
from rag_wrapper_client.methods.connection import ConnectionMethods
from rag_wrapper_client.methods.document import DocumentMethods
from rag_wrapper_client.methods.file import FileMethods
from rag_wrapper_client.methods.key import KeyMethods
from rag_wrapper_client.methods.quality import QualityMethods
from rag_wrapper_client.methods.query import QueryMethods
from rag_wrapper_client.methods.rag import RagMethods
from rag_wrapper_client.methods.search import SearchMethods
from rag_wrapper_client.methods.service import ServiceMethods
from rag_wrapper_client.methods.tool import ToolMethods


class Methods(
    CollectionMethods,
    DocumentMethods,
    QueryMethods,
    SearchMethods,
    RagMethods,
    ToolMethods,
    FileMethods,
    ConnectionMethods,
    QualityMethods,
    KeyMethods,
    ServiceMethods,
):
    """All methods."""
