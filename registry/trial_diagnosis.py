"""What a failed stage of a connection test is told to people: what is wrong, and what to do about it.

A test goes to anybody who may type in a URL. Its sentences are therefore our own and coarse: they have nothing of what
the peer said about the failure, no address that a name resolves to, no secret and no path.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from posixpath import commonpath
from urllib.parse import urlsplit

from providers.base import Provider
from providers.outbound.network import Network
from providers.outbound.recognition import Sign, near, shows, speaks
from providers.outbound.refusals import RefusedRequestError
from providers.outbound.trust import is_distrust
from schemas.configuration import JsonSchema
from schemas.connections import ERROR_TYPES
from schemas.errors import BusyError, NotFoundError, RagError, UnavailableError

LOOK_SECONDS, LOOKS_SECONDS = 1.0, 3.0
"""The time for one look at what answers, and for all of them."""
RECOGNISED = ("not_found", "unknown", "network")
"""The types of failures of which one wants to know what it is that answers."""
_UNUSABLE = ("answer_unusable", "embedding_answer_unusable", "chat_answer_unusable")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    message: str
    next_step: str


USUAL = {
    "timeout": Diagnosis(
        "The service did not answer in time",
        "Check that the service runs and is not overloaded, and that host and port are right.",
    ),
    "authentication": Diagnosis(
        "The service does not accept the credentials",
        "Check the API key, and that the variable or file it comes from holds the right one.",
    ),
    "authorization": Diagnosis(
        "The service does not allow this to the credentials",
        "Give the API key the permission, or use another key.",
    ),
    "not_found": Diagnosis(
        "The service does not know the route, the model or the collection",
        "Check the path of the URL, and the names of model, tenant and database.",
    ),
    "network": Diagnosis(
        "The service cannot be reached, or what answers there speaks another protocol",
        "Check host and port, that the service runs, and that http or https is right.",
    ),
    "rate_limit": Diagnosis(
        "The service takes no more requests now",
        "Wait a while, or ask its operator for a higher limit.",
    ),
    "invalid_config": Diagnosis(
        "The configuration is not valid",
        "Correct the fields that are named.",
    ),
    "blocked": Diagnosis(
        "Connections to this host are not allowed here",
        "Use another host, or ask the operator to allow this one (RAG_CONNECT_POLICY).",
    ),
    "unknown": Diagnosis(
        "The service answered something that could not be used",
        "Check that the URL leads to a service of this kind; the service's own log may say more.",
    ),
}
"""By error type."""
OF_STAGE = {
    ("address", "network"): Diagnosis(
        "The name of the host is not known here",
        "Check how the host is spelt, and that the machine of this service can resolve it.",
    ),
    ("connect", "network"): Diagnosis(
        "Nothing accepts connections at this host and port",
        "Check the port, and that the service runs and listens there.",
    ),
    ("connect", "timeout"): Diagnosis(
        "The host does not accept the connection in time",
        "Check host and port, and firewalls on the way.",
    ),
}
"""By stage and error type, where the stage tells more."""
SERVER_ERROR = 500
PAYMENT_REQUIRED = 402
NO_CREDENTIALS = Diagnosis(
    "The service asks for credentials, and none are given", "Fill in the API key, or name the variable that holds it."
)
UNPAID = Diagnosis("The service demands to be paid", "Check the credit and the plan of the API key's account.")
REFUSED = Diagnosis(
    "The service refuses what it is asked for",
    "Check the model and the other fields; the service's own log may say more.",
)
MOVED = Diagnosis(
    USUAL["invalid_config"].message,
    "Check the URL, which the service may redirect from, and that the API key has no blanks or accents.",
)
NOT_TRUSTED = Diagnosis(
    "The service's TLS certificate is not trusted here",
    "Use the name that the certificate is for, or have the operator trust its authority (RAG_CA_FILE).",
)


def error_type_of(error: BaseException) -> str:
    """Return which of `ERROR_TYPES` a failure is."""
    said = error.details.get("error_type") if isinstance(error, RagError) else None
    if said in ERROR_TYPES:
        return str(said)
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, OSError):
        return "network"
    if isinstance(error, NotFoundError):
        return "not_found"
    return "rate_limit" if isinstance(error, BusyError) else "unknown"


def diagnosis_of(stage: str, error_type: str, error: BaseException, *, has_credentials: bool) -> Diagnosis:
    """Return what a failure is told as, as far as it tells that itself."""
    if error_type == "authentication" and not has_credentials:
        return NO_CREDENTIALS
    if error_type == "network" and is_distrust(error):
        return NOT_TRUSTED
    if isinstance(error, RefusedRequestError):
        return REFUSED
    if error_type == "invalid_config":
        return MOVED
    status = error.details.get("status") if isinstance(error, RagError) else None
    if status == PAYMENT_REQUIRED:
        return UNPAID
    if error_type == "unknown" and isinstance(status, int) and status >= SERVER_ERROR:
        return Diagnosis(
            f"The service failed (HTTP {status})",
            "Look into the service's own log, and check the path of the URL and the model.",
        )
    return OF_STAGE.get((stage, error_type)) or USUAL[error_type]


def recognised(
    network: Network,
    url: str,
    own: type[Provider],
    known: Iterable[type[Provider]],
    told: Diagnosis,
    answers: Callable[[str, float], bool],
) -> Diagnosis | None:
    """Return what is to be told by what answers at a URL, which is what is `told` so far where it is the right service;
    None when that cannot be said.

    Of a service that is not of the kind that `own` connects to, the providers `known`, those of the connection's type,
    say what it is, unless `own` works nearby. It is asked for their signs, without a key. `answers` tries the
    connection itself, for so many seconds: whether it has models at this URL, and whether it works at another path of
    the same host and port.
    """
    ends_at = time.monotonic() + min(LOOKS_SECONDS, network.seconds_left() / 2)

    def seconds() -> float:
        return min(LOOK_SECONDS, ends_at - time.monotonic())

    def shows_sign(place: str, sign: Sign | None) -> bool:
        return sign is not None and seconds() > 0 and shows(network, place, sign, seconds=seconds())

    if shows_sign(url, own.sign) or answers(url, seconds()):
        return _of_names(own.connection_schema()) if told is USUAL["not_found"] else told
    is_unreached = told is USUAL["network"]
    for place in near(url) if not is_unreached else ():
        if answers(place, seconds()) or shows_sign(place, own.sign):
            return _of_path(url.rstrip("/"), place)
    others = {each.sign: each for each in known if each.sign not in (None, own.sign)}
    for sign, other in others.items():
        if shows_sign(url, sign):
            return Diagnosis(
                f"“{other.display_name}” answers there, not “{own.display_name}”",
                f"Choose the provider “{other.display_name}” for this address, or correct the URL.",
            )
    parts = urlsplit(url)
    scheme = "http" if parts.scheme == "https" else "https"
    opposite = parts._replace(scheme=scheme).geturl()
    if shows_sign(opposite, own.sign) or (is_unreached and speaks(network, opposite, seconds=seconds())):
        return Diagnosis(f"The service speaks {scheme}, not {parts.scheme}", f"Begin the URL with {scheme}://.")
    return None


def unusable(error: BaseException) -> Diagnosis:
    """Return what to tell of an answer of the right service that is of no use, with what it is where that is known."""
    usual = USUAL["unknown"]
    if not isinstance(error, UnavailableError) or error.code not in _UNUSABLE or "status" in error.details:
        return usual
    return replace(usual, message=f"{usual.message}. {error.message}")


def unrecognised(own: type[Provider]) -> Diagnosis:
    """Return what to tell when nobody can say what answers at a URL."""
    return Diagnosis(
        f"What answers there is not recognised as “{own.display_name}”",
        "Check host, port and path of the URL, or choose another provider.",
    )


def _of_names(schema: JsonSchema) -> Diagnosis:
    names = [
        str(field.get("title", name))
        for name, field in schema.get("properties", {}).items()
        if field.get("type") == "string" and field.get("format") != "uri" and not field.get("writeOnly")
    ]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:]))) or "the names in the configuration"
    return Diagnosis(
        "The service is the right one, but does not know something that the configuration names", f"Check {listed}."
    )


def _of_path(url: str, place: str) -> Diagnosis:
    """Return what to tell of a service that answers at a place near a URL: only what differs, since the rest may be
    hidden behind a placeholder."""
    before, after = re.sub("/{2,}", "/", urlsplit(url.rstrip("/")).path), urlsplit(place).path
    common = commonpath([before or "/", after or "/"]).rstrip("/")
    wrong, right = before[len(common) :], after[len(common) :]
    message = "The service answers, but not at this path"
    if right:
        message += f": …{right} answers"
    if before == after:
        return Diagnosis(message, "Leave the doubled slash out of the URL.")
    if not after:
        return Diagnosis(message, "Leave the path out of the URL.")
    if not right:
        return Diagnosis(message, f"Leave {wrong} out at the end of the URL.")
    if not common and wrong:
        return Diagnosis(message, f"Put {right} behind host and port, without anything else.")
    return Diagnosis(message, f"Write {right} instead of {wrong}." if wrong else f"Put {right} at the end of the URL.")
