"""What a service says about a request that it does not serve: in its own words, from whatever shape they come in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import unescape
from http import HTTPStatus
from typing import Any, Self

import orjson

from providers.outbound.redaction import MASK, MIN_SECRET_CHARS, Redactor
from schemas.errors import ConfigurationError, InvalidInputError, RagError, UnavailableError

MAX_REASON_CHARS = 200
MAX_SAID_BYTES = 20_000
MAX_BEGINNING_CHARS = 60
MAX_DEPTH = 6
MAX_FAULTS = 20
_SENTENCES = ("message", "msg", "detail", "details", "error", "error_description", "title", "status", "reason", "code")
_OF_REQUEST = re.compile(
    r"base64|encoding[\W_]?format|\bfloat encoding|\bbatch[ _]size|keyword argument|\btop_?n\b"
    r"|context (length|size|window)"
    r"|too (many|large|long)( \w+)? (input|text|document|sequence|token|item|batch)"
    r"|\b(input|prompt|text|batch|sequence|document|content|payload|token)s?"
    r"( (length|size|count|is|are|\(?\d+( tokens?)?\)?))* (too (many|large|long|big)|exceeds?\b|(larger|longer) than)",
    re.IGNORECASE,
)
"""The words of a failure (5xx) that is about what was sent: the size of a call, or base64. A list is another such."""
_TOO_LARGE = re.compile(
    r"\b(request|input|prompt|batch|payload|body)s?( (is|are))? too (large|long|big)|\bmust be (reduced|shortened)"
    r"|\breduce (the|your) (input|prompt|batch|length|size|number(?! of (request|call)))",
    re.IGNORECASE,
)
_OF_RATE = re.compile(
    r"\bper[\W_]?(sec|s\b|min|m\b|h|d|week|month)|/ ?(s|sec|m|min|h|hour|d|day)\b|\b[rt]p[smhd]\b"
    r"|(dai|hour|week|month)ly|\brate\b|rate[\W_]?limit|quota|throttl"
    r"|too many (requests|calls)|concurren|parallel|simultaneous|in flight|queue|overload|busy|capacity|\bwait"
    r"|\btry(ing)?\b|retry|again|later|credit|billing|usage|\b(plan|tier)\b",
    re.IGNORECASE,
)
"""The words of a limit of many calls together, which a smaller one does not keep."""
_LIMIT_AND_REQUESTED = re.compile(r"\blimit\W+([\d,]*\d)\b.*\brequested\W+([\d,]*\d)\b", re.IGNORECASE)
_WANTS_STRING = re.compile(
    r"(valid|be an?|expect(s|ed)?( an?)?|of type|type is|(only|single|one)( an?)?( single)?) [\"'`]?string\b"
    r"|java\.lang\.String|\bstr type expected|(received|unmarshal|deserialize) (an? )?(array|list|sequence)\b"
    r"|'list' object has no",
    re.IGNORECASE,
)
_OF_LISTS = re.compile(r"(array|list|sequence)s? of ", re.IGNORECASE)
_OF_CONTEXT = re.compile(
    r"context[\W_]*(length|size|window|limit)|maximum (model|prompt|input) length|max_new_tokens|too many tokens"
    r"|(prompt|input|messages?|request)\b[^.;]{0,60}\b(too (long|large)|exceeds?\b|longer than)"
    r"|(prompt|input|messages?|request)[_ ](is )?too[_ ](long|large)|reduce the length|exceed_context",
    re.IGNORECASE,
)
"""What OpenAI, vLLM, llama.cpp, LM Studio, Ollama, TGI, Mistral, Groq and others say of it."""
_STATUSES = ("code", "status", "status_code")
_HTML_TITLE = re.compile(r"<title[^>]*>(.*?)</title>|<h1[^>]*>(.*?)</h1>", re.IGNORECASE | re.DOTALL)


class RefusedRequestError(InvalidInputError):
    """A service refuses a request: by 400, 413, 422 and the like, by a 5xx that `is_of_request`, or a 429 that
    `is_too_large`. `said` is all that it said, without secrets; nobody is shown it."""

    said: str = ""

    @property
    def wants_string(self) -> bool:
        """Whether the service says that it takes a text, and no list of texts."""
        return wants_string(self.said)

    def names(self, word: str) -> bool:
        """Return whether the service names a field or a value, in whatever spelling (`top_n`, `topN`, `top-n`)."""
        return _letters(word) in _letters(self.said)


class RefusedCallError(ConfigurationError):
    """A service refuses a call by 401, 403 or 404. Where it takes others, with the same key, `alone` says why."""

    alone: RefusedRequestError


class UnusableTextError(UnavailableError):
    """A service answered for `text` something of no use, or fails for it. `accepted` is what it answered for others, if
    they are of use, by their places among the texts of the call."""

    accepted: Mapping[int, Any] = {}

    def __init__(self, text: str, sentence: str, named: str = "", **details: Any) -> None:
        super().__init__(f"{sentence} for {named}" if named else sentence, **details)
        self.text = text
        self._sentence = sentence

    @property
    def alone(self) -> Self:
        """The error without the text's place."""
        return type(self)(self.text, self._sentence, **self.details)

    def among(self, texts: Sequence[str], field: str = "texts") -> Self:
        """Return the error that names the text by its place among these, in the list of that name."""
        place = texts.index(self.text)
        details = {**self.details, "field": field, "index": place}
        return type(self)(self.text, self._sentence, named_text(texts, place, field), **details)


class RefusedTextsError(InvalidInputError):
    """A service refuses some of several texts, or fails for them: `refused` has its refusal of each, and `accepted`
    what it answered for the others, by their places in the list."""

    def __init__(
        self,
        texts: Sequence[str],
        refused: Mapping[int, RagError],
        accepted: Mapping[int, Any],
        field: str = "texts",
    ) -> None:
        first = min(refused)
        others = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        place = {"field": field, "index": first}
        super().__init__(
            f"{named_text(texts, first, field)},{others} is refused: {refused[first].message}",
            **{**refused[first].details, **place},
        )
        self.refused = dict(refused)
        self.accepted = dict(accepted)
        self.alone = refused[first]

    def moved(self, texts: Sequence[str], *, by: int = 0, field: str = "texts") -> RefusedTextsError:
        """Return the error for a list in which the texts are so many places later, and for the name that it has."""
        refused, accepted = ({by + place: each for place, each in of.items()} for of in (self.refused, self.accepted))
        return RefusedTextsError(texts, refused, accepted, field)


def exceeds_context(error: RagError) -> bool:
    """Return whether a server says that a request is too long for its model, so that a shorter one may be answered."""
    if not isinstance(error, RefusedRequestError | UnavailableError):
        return False
    said = error.said if isinstance(error, RefusedRequestError) else ""
    is_too_large = error.details.get("status") == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return is_too_large or _OF_CONTEXT.search(f"{error.message} {said}") is not None


def named_text(texts: Sequence[str], place: int, field: str = "texts") -> str:
    """Return what a sentence calls one of several texts: its place, and how it begins."""
    begins = " ".join(texts[place][: 2 * MAX_BEGINNING_CHARS].split())[:MAX_BEGINNING_CHARS]
    return f"{field}[{place}], which begins “{begins}”"


def is_of_request(words: str) -> bool:
    """Return whether the words of a failure say that the request was at fault, which no repetition cures."""
    return _OF_REQUEST.search(words) is not None or wants_string(words)


def is_too_large(words: str) -> bool:
    """Return whether too many requests (429) means that one alone is beyond the limit, so that waiting does not help:
    “Limit 100, Requested 640”, or what `is_of_request` and says nothing of a rate."""
    found = _LIMIT_AND_REQUESTED.search(words)
    if found is not None:
        limit, requested = (int(each.replace(",", "")) for each in found.groups())
        return requested > limit
    return _TOO_LARGE.search(words) is not None or (is_of_request(words) and _OF_RATE.search(words) is None)


def told_status(content: bytes) -> int | None:
    """Return the HTTP status that an error has which is answered as a success (200 when it says none), None when an
    answer is no error."""
    if len(content) > MAX_SAID_BYTES or b'"error"' not in content:
        return None
    try:
        answer = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    error = answer.get("error") if isinstance(answer, dict) else None
    if not error and not (isinstance(answer, dict) and answer.get("object") == "error"):
        return None
    told = [str(members.get(name)) for members in (error, answer) if isinstance(members, dict) for name in _STATUSES]
    return next((int(each) for each in told if re.fullmatch("[45][0-9]{2}", each)), HTTPStatus.OK)


def without_parts(words: str, redact: Redactor) -> str:
    """Return a service's words without those that have a part of what `redact` knows: of a key, some quote an end."""
    parts = {
        value[at : at + MIN_SECRET_CHARS] for value in redact.values for at in range(len(value) - MIN_SECRET_CHARS + 1)
    }
    return " ".join(MASK if any(part in word for part in parts) else word for word in words.split())


def wants_string(words: str) -> bool:
    """Return whether words ask for a text where a list of texts was sent."""
    return _WANTS_STRING.search(words) is not None and _OF_LISTS.search(words) is None


def all_said(content: bytes, redact: Redactor) -> str:
    """Return what a service said, without what `redact` knows."""
    return _clean(content[:MAX_SAID_BYTES].decode(errors="replace"), redact)


def reason_in(content: bytes, redact: Redactor) -> str | None:
    """Return the service's own sentence, None when there is none.

    It is a text or an HTML page with a title, or JSON: a text, or objects and lists with one, as those of OpenAI,
    Ollama, FastAPI (`detail` as a list of faults with their places), ASP.NET (`errors` by field), Google, Chroma and
    Qdrant.
    """
    try:
        found = _sentence(orjson.loads(content))
    except orjson.JSONDecodeError:
        text = content[:MAX_SAID_BYTES].decode(errors="replace").strip()
        found = _title(text) if text.startswith("<") else "" if text.startswith(("{", "[")) else text
    return _clean(found, redact)[:MAX_REASON_CHARS] or None


def _sentence(answer: Any, depth: int = MAX_DEPTH) -> str:
    if isinstance(answer, str):
        return answer.strip()
    if not depth:
        return ""
    if isinstance(answer, list):
        return "; ".join(filter(None, (_sentence(each, depth - 1) for each in answer[:MAX_FAULTS])))
    if not isinstance(answer, dict):
        return ""
    members = {str(name).casefold(): value for name, value in answer.items()}
    said = next((words for name in _SENTENCES if (words := _sentence(members.get(name), depth - 1))), "")
    place = members.get("loc")
    if isinstance(place, list):
        said = f"{'.'.join(str(step) for step in place if step != 'body')}: {said}"
    errors = members.get("errors")
    if isinstance(errors, dict):
        errors = [f"{name}: {_sentence(faults, depth - 1)}" for name, faults in errors.items()]
    return ": ".join(filter(None, (said, _sentence(errors, depth - 1))))


def _title(page: str) -> str:
    found = _HTML_TITLE.search(page)
    return unescape(found[1] or found[2] or "") if found else ""


def _clean(text: str, redact: Redactor) -> str:
    """Return a text in one line, without secrets, also those that invisible characters or line breaks hide."""
    line = " ".join("".join(c for c in text if c.isprintable() or c.isspace()).split())
    joined = "".join(c for c in text if c.isprintable())
    seen = joined if redact(joined) != joined else line
    return str(redact(seen))


def _letters(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())
