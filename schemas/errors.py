"""The error family. Errors know their sentence and where the fault is, never a transport's number.

Each transport has one table from these classes to its own codes (HTTP: `wrapper/web/error_statuses.py`).
"""

from __future__ import annotations

from typing import Any


class RagError(Exception):
    """The root of the family.

    `message` is one sentence for people, `code` a stable slug for programs, and `details` locates the fault (`field`,
    `index`, `line`, `pointer`, `allowed`, …). `retry_after_seconds` is when the same request may succeed, None for what
    does not pass by itself. `summary` is the short word under `error` where a contract wants one there and the sentence
    under `message`. `is_of_any_text` says that a service fails at a text as good as any, which need not be tried again.
    """

    code = "internal_error"
    summary: str | None = None
    retry_after_seconds: int | None = None
    is_of_any_text = False

    def __init__(self, message: str, *, code: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.details = {name: value for name, value in details.items() if value is not None}


class ConfigurationError(RagError):
    """A setting or a connection is wrong until an operator changes it.

    The error names the variable or the field. It stops the start, or makes what needs it unavailable.
    """

    code = "configuration_error"


class InvalidInputError(RagError):
    """The caller's input is wrong; nothing was stored."""

    code = "invalid_input"


class InvalidFilterError(InvalidInputError):
    """A `where` filter is wrong; `details.pointer` is a JSON Pointer into the filter."""

    code = "invalid_where"


class MatchesEverythingError(InvalidInputError):
    """A filter, the parameter `field`, matches all documents of a collection: nothing was `done`."""

    code = "matches_everything"

    def __init__(self, name: str, count: int, done: str, field: str = "where") -> None:
        sentence = f"{field} matches all {count:,} documents of collection '{name}': nothing was {done}"
        super().__init__(f"{sentence}. With all=true it would be", field=field, count=count)


class TooComplexError(InvalidInputError):
    """The request is beyond a limit of the database: it has too many conditions, or values that are too large."""

    code = "too_complex"


class UnsupportedMediaError(InvalidInputError):
    """The body is not of a media type or encoding that the route reads."""

    code = "unsupported_media_type"


class PayloadTooLargeError(InvalidInputError):
    """The body is larger than the operator allows; `details.limit_bytes` says how large it may be."""

    code = "payload_too_large"


class LongRequestLineError(InvalidInputError):
    """The request line is longer than the service reads; `details.limit_bytes` says how long it may be."""

    code = "request_line_too_long"


class WrongMethodError(InvalidInputError):
    """The route exists, but not with this method; `details.allowed` are those it has."""

    code = "method_not_allowed"


class HostNotAllowedError(RagError):
    """The request names a host that is not this service: a foreign name that leads here, or one not configured yet."""

    code = "host_not_allowed"

    def __init__(self, host: str) -> None:
        super().__init__("This service is not asked by that name: RAG_ALLOWED_HOSTS would have to have it", host=host)


class ForbiddenOriginError(RagError):
    """A page of a foreign origin made a request that only programs and pages of this service may make.

    The origin is None where a browser says that the page is foreign, but not which one it is.
    """

    code = "origin_not_allowed"

    def __init__(self, origin: str | None) -> None:
        super().__init__("Pages of this origin may not call: RAG_CORS_ORIGINS would have to name it", origin=origin)


class AccessError(RagError):
    """The caller may not do this. Whatever the work was for, it is the caller who has to change something."""


class UnauthorizedError(AccessError):
    """The request does not say who asks, or says it with a key or a token that does not count (any more)."""

    code = "key_unknown"


class MalformedAuthorizationError(UnauthorizedError):
    """The header `Authorization` has not the form in which it carries a key."""


class ScopeMissingError(AccessError):
    """The caller may not do this; `details.scope` is what they would need, and `details.field` for what, where it is
    one part of the request."""

    code = "scope_missing"

    def __init__(self, scope: str, *, field: str | None = None) -> None:
        what = "This" if field is None else f"A value for {field}"
        super().__init__(f"{what} needs the scope '{scope}', which the key does not have", scope=scope, field=field)


class CollectionForbiddenError(AccessError):
    """The caller's key is for other collections, and it was to create this one or write into it."""

    code = "collection_forbidden"

    def __init__(self, name: str) -> None:
        super().__init__(f"The key is not for a collection '{name}'", collection=name)


class PartlySeenError(AccessError):
    """The caller's key is for a part of a collection's documents, and what was asked for is told about all of them."""

    code = "collection_forbidden"

    def __init__(self, name: str) -> None:
        super().__init__(f"The key is for a part of collection '{name}' only", collection=name)


class DatabaseForbiddenError(AccessError):
    """The caller has not all collections that a tenant or database may have, and so may not make or delete it."""

    code = "collection_forbidden"

    def __init__(self, name: str) -> None:
        super().__init__(f"The key is not for all collections of '{name}'", database=name)


class ResetDisabledError(AccessError):
    code = "reset_disabled"

    def __init__(self) -> None:
        super().__init__("Reset is disabled by config")


class OwnedByAnotherError(AccessError):
    """The caller may see this, because its owner shares it, and was to change or delete it."""

    code = "owned_by_another"

    def __init__(self, what: str, hint: str | None = None) -> None:
        sentence = f"{what} belongs to another caller, who alone may change it"
        super().__init__(sentence if hint is None else f"{sentence}. {hint}")


class TooManyRequestsError(AccessError):
    """The caller asks for more than their key's limits allow; `details.limit` names the limit."""

    code = "rate_limited"
    retry_after_seconds: int

    def __init__(self, message: str, *, retry_after_seconds: int, limit: str) -> None:
        super().__init__(message, limit=limit)
        self.retry_after_seconds = retry_after_seconds


class ConcurrencyLimitedError(TooManyRequestsError):
    """The caller has as many requests under way as their key's limits allow."""

    code = "concurrency_limited"


class QuotaError(AccessError):
    """The write would leave more in the caller's collections than their key's limits allow; nothing was stored."""

    code = "quota_exceeded"


class SlowClientError(RagError):
    """The caller took too long to send its request; nothing was stored, or what `details` says."""

    code = "client_too_slow"


class PlainRequestError(RagError):
    """The caller speaks HTTP without TLS to a service that speaks TLS only."""

    code = "tls_required"

    def __init__(self) -> None:
        super().__init__("The service speaks TLS: its URL begins with https://")


class MalformedRequestError(RagError):
    """What arrived is no request that HTTP allows."""

    code = "malformed_request"


class LongHeadersError(RagError):
    """The head of a request is longer than the server reads."""

    code = "headers_too_large"


class NotFoundError(RagError):
    code = "not_found"


class GoneError(RagError):
    """What was asked for was there once, and is not any more."""

    code = "gone"


class TooOldError(GoneError):
    """What followed was forgotten: who followed a collection begins anew. `details.oldest` is the oldest revision that
    can still be followed from."""

    code = "too_old"


class CollectionNotFoundError(NotFoundError):
    code = "collection_not_found"

    def __init__(self, name: str, *others: str) -> None:
        super().__init__(f"Collection '{name}' not found", collection=name)
        self.names = (name, *others)
        """All that were asked for at once and are missing. The sentence is about the first."""


class AliasNotFoundError(NotFoundError):
    code = "alias_not_found"

    def __init__(self, alias: str) -> None:
        super().__init__(f"Alias '{alias}' not found", alias=alias)


class TenantNotFoundError(NotFoundError):
    code = "tenant_not_found"

    def __init__(self, tenant: str) -> None:
        super().__init__(f"Tenant [{tenant}] not found", tenant=tenant)


class DatabaseNotFoundError(NotFoundError):
    code = "database_not_found"

    def __init__(self, tenant: str, database: str) -> None:
        super().__init__(f"Database [{database}] not found. Are you sure it exists?", tenant=tenant, database=database)


class DocumentNotFoundError(NotFoundError):
    code = "document_not_found"

    def __init__(self, collection: str, document_id: str) -> None:
        super().__init__(
            f"Document '{document_id}' not found in collection '{collection}'",
            collection=collection,
            id=document_id,
        )


class ConflictError(RagError):
    """The input is well formed but contradicts what is stored."""

    code = "conflict"


class DocumentExistsError(ConflictError):
    """A document was to be stored only as a new one, and its id is taken."""

    code = "document_exists"

    def __init__(self, document_id: str) -> None:
        super().__init__(f"Document '{document_id}' already exists", id=document_id)


class AlreadyThereError(ConflictError):
    """A write was to happen only unless something is stored, and it is stored."""

    code = "already_there"


class PreconditionFailedError(RagError):
    """`If-Match` names another revision than the collection's; `details.revision` is the current one."""

    code = "precondition_failed"


class UnsupportedError(RagError):
    """A provider was asked for a capability it does not have."""

    code = "unsupported"


class UnavailableError(RagError):
    """Something this service needs does not answer now. The same request may succeed later."""

    code = "unavailable"
    retry_after_seconds: int | None = 2


class BusyError(UnavailableError):
    """Too much is waiting already; nothing of this request was stored."""

    code = "busy"


class NoThreadError(BusyError):
    """The system lets the process have no further thread now."""

    def __init__(self) -> None:
        super().__init__("The service can begin no further thread now: try again")


class AdoptingError(UnavailableError):
    """The collection is being taken in from the engine and takes no write before that is complete."""

    code = "collection_adopting"
    retry_after_seconds = 5


class TooSlowError(RagError):
    """A statement used up its time and was given up; nothing was stored. Repeating it does not help."""

    code = "too_slow"


class ReadTimeoutError(TooSlowError):
    """The reads of a request used up their time. Less at a time, or at another time, may do."""

    code = "read_timeout"
    retry_after_seconds = 10


class ClientGoneError(TooSlowError):
    """The client left before its answer was there, so it was given up; nothing was stored."""

    code = "client_closed_request"

    def __init__(self) -> None:
        super().__init__("The client closed its side of the connection before the answer was there")


class DiskFloorError(RagError):
    """Free disk space is below the operator's floor: writes are refused, reads go on."""

    code = "disk_floor_reached"


class AuditUnwritableError(DiskFloorError):
    """What must be in the audit log cannot be recorded now, so it is not begun."""

    code = "audit_unwritable"


class NotRecordedError(RagError):
    """A request was carried out, and the audit log has no line of it: it must not be answered as if it had one."""

    code = "not_recorded"
