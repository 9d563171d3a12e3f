"""`/v1/embeddings` as JSON."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from marshmallow import ValidationError, fields

from schemas.errors import InvalidInputError
from schemas.records import Vector
from schemas.wire.body import Body
from schemas.wire.fields import Choice, Count, ModelName

Json = dict[str, Any]

MAX_INPUTS = 2_048
FLOAT, BASE64 = "float", "base64"
NO_TOKENS = (
    "input must be a text or a list of texts: numbers are tokens of a tokenizer that this service does not know. "
    "LangChain sends texts with check_embedding_ctx_length=False"
)


class Inputs(fields.Field[tuple[str, ...]]):
    """A text or a list of texts."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> tuple[str, ...]:
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, list) or not given:
            raise ValidationError("must be a text or a list of texts")
        if all(isinstance(each, int | float | list) for each in given):
            raise InvalidInputError(NO_TOKENS, code="invalid_field", field="input")
        if len(given) > MAX_INPUTS:
            raise ValidationError(f"must have at most {MAX_INPUTS:,} elements")
        for index, each in enumerate(given):
            if not isinstance(each, str) or not each.strip():
                reason = "is blank and has no embedding" if isinstance(each, str) else "is not a text"
                sentence = f"input[{index}] {reason}"
                raise InvalidInputError(sentence, code="invalid_field", field="input", index=index)
        return tuple(given)


class EmbeddingsBody(Body):
    model = ModelName(required=True)
    texts = Inputs(required=True, data_key="input")
    encoding_format = Choice((FLOAT, BASE64), load_default=FLOAT)
    dimensions = Count(least=1, load_default=None)


EMBEDDINGS = EmbeddingsBody()


def embeddings_answer(model: str, vectors: Vector, tokens: int, cut: Sequence[int], encoding_format: str) -> Json:
    """Spell vectors, float32 (texts, dimension), as floats or as the base64 of little-endian float32.

    `truncated` has the places of the texts of which the model read only the beginning, where there are any.
    """
    told = [
        {"object": "embedding", "index": index, "embedding": _base64(each) if encoding_format == BASE64 else each}
        for index, each in enumerate(vectors)
    ]
    answer: Json = {
        "object": "list",
        "data": told,
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
    return answer | {"truncated": list(cut)} if cut else answer


def _base64(vector: Vector) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
