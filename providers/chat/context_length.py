"""The refusal of a request that is longer than what a chat model reads."""

from __future__ import annotations

import re
from http import HTTPStatus

from providers.outbound.refusals import RefusedRequestError
from schemas.errors import RagError, UnavailableError

_WORDS = re.compile(
    r"context[\W_]*(length|size|window|limit)|maximum (model|prompt|input) length|max_new_tokens|too many tokens"
    r"|(prompt|input|messages?|request)\b[^.;]{0,60}\b(too (long|large)|exceeds?\b|longer than)"
    r"|(prompt|input|messages?|request)[_ ](is )?too[_ ](long|large)|reduce the length|exceed_context",
    re.IGNORECASE,
)
"""What OpenAI, vLLM, llama.cpp, LM Studio, Ollama, TGI, Mistral, Groq and others say of it."""


def exceeds_context(error: RagError) -> bool:
    """Return whether a server says that a request is too long for its model, so that a shorter one may be answered."""
    if not isinstance(error, RefusedRequestError | UnavailableError):
        return False
    said = error.said if isinstance(error, RefusedRequestError) else ""
    is_too_large = error.details.get("status") == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return is_too_large or _WORDS.search(f"{error.message} {said}") is not None
