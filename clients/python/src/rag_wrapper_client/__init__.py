"""A typed client of rag-wrapper, sync and async.

from rag_wrapper_client import Client

with Client("http://127.0.0.1:5006") as client:
    print(client.health()["status"])
"""

from rag_wrapper_client.async_client import AsyncClient
from rag_wrapper_client.changes import Change, Place
from rag_wrapper_client.client import Client
from rag_wrapper_client.documents import ExportedDocument, NewDocument
from rag_wrapper_client.embeddings import decoded, encoded, matrix
from rag_wrapper_client.errors import (
    ConflictError,
    ConnectionFailedError,
    ForbiddenError,
    GoneError,
    InvalidRequestError,
    NotFoundError,
    NotModifiedError,
    PreconditionFailedError,
    RagWrapperError,
    RateLimitedError,
    ServerError,
    TimedOutError,
    UnauthorizedError,
    UnavailableError,
    UnusableAnswerError,
)
from rag_wrapper_client.exchanges import Answer
from rag_wrapper_client.retries import Retry

__all__ = [
    "Answer",
    "AsyncClient",
    "Change",
    "Client",
    "ConflictError",
    "ConnectionFailedError",
    "ExportedDocument",
    "ForbiddenError",
    "GoneError",
    "InvalidRequestError",
    "NewDocument",
    "NotFoundError",
    "NotModifiedError",
    "Place",
    "PreconditionFailedError",
    "RagWrapperError",
    "RateLimitedError",
    "Retry",
    "ServerError",
    "TimedOutError",
    "UnauthorizedError",
    "UnavailableError",
    "UnusableAnswerError",
    "decoded",
    "encoded",
    "matrix",
]
