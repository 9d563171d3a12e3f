"""The local embedding models: all-MiniLM-L6-v2 and its int8 form on onnxruntime, in this process, without a
network."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import structlog

from providers.base import ProviderContext, Registry
from providers.embeddings.base import EmbeddingProvider, SupportsTokens, TokenCounts
from providers.embeddings.minilm_graph import HIDDEN, MAX_TOKENS, Graph, build_graph
from providers.embeddings.minilm_int8 import Int8Graph
from providers.embeddings.minilm_parts import (
    check_weights,
    locate_model,
    missing_libraries,
    tokenizer_file,
    weights_file,
)
from providers.models import UnknownModelError, one_model
from schemas.configuration import JsonSchema, read_schema
from schemas.connections import ModelInfo
from schemas.errors import ConfigurationError
from schemas.records import Vector

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

log = structlog.get_logger(__name__)

MODELS: Mapping[str, type[Graph]] = {"all-MiniLM-L6-v2": Graph, "all-MiniLM-L6-v2-int8": Int8Graph}
# Tokens of one run, padding included: speed per text is flat from here up, memory is not.
MAX_BATCH_TOKENS = 2048
RUN_TOKENS = 12
"""What a run costs beside its tokens, in tokens: texts share one where that saves more than their padding takes."""
# A longer text is read in windows; this many hold a chunk of 8,192 tokens, the longest that contract *rules* makes.
MAX_WINDOWS = 33
WINDOW_TOKENS = MAX_TOKENS - 2  # without [CLS] and [SEP], which each window gets
UNKNOWN = "[UNK]"
"""The token of what is not in the vocabulary."""
MAX_INPUT_TOKENS = MAX_WINDOWS * WINDOW_TOKENS + 2
# Texts tokenised at a time, so that a long list does not become a long list of tokens.
MAX_TOKENISED_TEXTS = 1024


class MiniLMProvider(EmbeddingProvider, SupportsTokens):
    """384 dimensions, unit length, mean pooling over the mask.

    Both models are made from the same weights; their vectors are alike but not the same, so they have names of their
    own. A model reads 256 tokens, [CLS] and [SEP] included. A longer text is read in windows of that size, one after
    the other; its vector is the mean of theirs, weighted by their tokens and scaled to unit length again. After 33
    windows (8,384 tokens) a text is cut, and the log says so.

    The constructor only checks that everything is there; the first `embed` by a model loads it (well under a second),
    and every load checks the weights' sha256. `model_dir` holds `model.safetensors` and `tokenizer.json`; with None the
    weights package is used.
    """

    id = "minilm"
    display_name = "MiniLM on this machine"
    description = "all-MiniLM-L6-v2 or its int8 form in this process: 384 dimensions, no network"
    limits: ClassVar = {"max_input_tokens": MAX_INPUT_TOKENS, "window_tokens": MAX_TOKENS}
    parallel_calls = 1  # each has all cores
    max_input_tokens = MAX_INPUT_TOKENS

    def __init__(
        self, config: Mapping[str, Any], context: ProviderContext | None = None, *, model_dir: Path | None = None
    ) -> None:
        super().__init__(config, context)
        self._dimension = HIDDEN
        self._model_dir = locate_model(model_dir)
        self._threads: int | None = self.config.get("threads")
        self._lock = threading.Lock()
        self._loaded: dict[str, _Loaded] = {}
        self._counts = TokenCounts()

    @classmethod
    def connection_schema(cls) -> JsonSchema:
        return read_schema("embedding-minilm")

    @classmethod
    def unavailable_because(cls) -> str | None:
        try:
            locate_model()
        except ConfigurationError as error:
            return error.message
        return None

    @classmethod
    def damaged_because(cls) -> str | None:
        try:
            check_weights(weights_file(locate_model()))
        except ConfigurationError as error:
            return error.message
        return None

    def check(self) -> dict[str, Any]:
        """Check without loading the model, to save its memory in a service that embeds nothing."""
        locate_model(self._model_dir)
        return {"model": self.model, "dimension": HIDDEN}

    def warm_up(self) -> None:
        self._load(self.model)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of the whole text as the model counts them, [CLS] and [SEP] included, before any
        cut."""
        known = self._counts.find(text)
        if known is not None:
            return known
        return self._counts.keep(text, len(self._load(self.model).tokenizer.encode_batch_fast([text])[0]))

    def can_read(self, question: str) -> bool:
        """Return whether at least half of the question's tokens are words, or parts of words, of the vocabulary."""
        tokenizer = self._load(self.model).tokenizer
        ids = tokenizer.encode_batch_fast([question], add_special_tokens=False)[0].ids
        return 2 * ids.count(tokenizer.token_to_id(UNKNOWN) or 0) <= len(ids)

    def token_starts(self, text: str) -> list[int]:
        (encoding,) = self._load(self.model).tokenizer.encode_batch([text], add_special_tokens=False)
        return [start for start, _ in encoding.offsets]

    def close(self) -> None:
        with self._lock:
            self._loaded = {}

    def models(self) -> list[ModelInfo]:
        return [one_model(model, self.kind, self.max_input_tokens, self.description) for model in sorted(MODELS)]

    def _embed(self, texts: list[str]) -> Vector:
        return self._embed_by(self.model, texts)

    def _embed_by(self, model: str, texts: list[str]) -> Vector:
        if model not in MODELS:
            raise UnknownModelError(self.id, model, *MODELS)
        loaded = self._load(model)
        vectors = np.empty((len(texts), HIDDEN), dtype=np.float32)
        cut = 0
        for start in range(0, len(texts), MAX_TOKENISED_TEXTS):
            part = texts[start : start + MAX_TOKENISED_TEXTS]
            encodings = loaded.tokenizer.encode_batch_fast(part)
            for text, encoding in zip(part, encodings, strict=True):
                self._counts.keep(text, len(encoding))
            cut += sum(len(encoding) > MAX_INPUT_TOKENS for encoding in encodings)
            windows = [_windows(encoding.ids) for encoding in encodings]
            vectors[start : start + len(encodings)] = _embed_windows(loaded.session, windows)
        if cut:
            log.warning("texts are cut to the model's limit", texts=cut, max_input_tokens=MAX_INPUT_TOKENS)
        return vectors

    def _load(self, model: str) -> _Loaded:
        with self._lock:
            if model not in self._loaded:
                self._loaded[model] = _load_model(self._model_dir, MODELS[model], self._threads)
            return self._loaded[model]


class _Loaded(NamedTuple):
    tokenizer: Tokenizer
    session: InferenceSession


def _load_model(model_dir: Path, graph: type[Graph], threads: int | None) -> _Loaded:
    check_weights(weights_file(locate_model(model_dir)))
    # Newer releases report to their maker, and keep an id of the machine in the user's cache. Both names are in use,
    # and are read once, when the library is loaded.
    os.environ["ORT_DISABLE_TELEMETRY"] = os.environ["ORT_TELEMETRY_DISABLED"] = "1"
    try:
        import onnxruntime
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        model, external = build_graph(graph(load_file(weights_file(model_dir))))
    except ImportError as exc:
        raise missing_libraries(exc.name or "one cannot be imported") from exc
    tokenizer = Tokenizer.from_file(str(tokenizer_file(model_dir)))
    # The file asks for 128 tokens, cut and padded; the model takes 256, and batches are padded here.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    # Spinning threads win 0.7 ms of a query and burn 20 ms of the cores that the rest of the service needs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in external.values()]
    options.add_external_initializers(list(external), values)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return _Loaded(tokenizer, session)


def batches_by_length(lengths: list[int], max_tokens: int) -> Iterator[list[int]]:
    """Group positions so that texts of similar length share a run and padding costs less than runs of their own.

    Shortest first; a batch holds at most `max_tokens` with its padding, but always at least one text.
    """
    batch: list[int] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[position]
        padding = len(batch) * (length - lengths[batch[-1]]) if batch else 0
        if batch and (padding > RUN_TOKENS or (len(batch) + 1) * length > max_tokens):
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def _windows(ids: list[int]) -> list[list[int]]:
    """Return the token ids of a text in rows that the model can read, each between the text's own [CLS] and [SEP]."""
    if len(ids) <= MAX_TOKENS:
        return [ids]
    begin, content, end = ids[0], ids[1:-1][: MAX_WINDOWS * WINDOW_TOKENS], ids[-1]
    return [[begin, *content[at : at + WINDOW_TOKENS], end] for at in range(0, len(content), WINDOW_TOKENS)]


def _embed_windows(session: InferenceSession, windows: list[list[list[int]]]) -> Vector:
    """Return a vector of unit length for each text, given its windows."""
    rows = [row for text in windows for row in text]
    of_rows = np.empty((len(rows), HIDDEN), dtype=np.float32)
    for batch in batches_by_length([len(row) for row in rows], MAX_BATCH_TOKENS):
        of_rows[batch] = _run(session, [rows[position] for position in batch])
    vectors = np.empty((len(windows), HIDDEN), dtype=np.float32)
    first = 0
    for position, text in enumerate(windows):
        own = of_rows[first : first + len(text)]
        vectors[position] = own[0] if len(text) == 1 else _mean(own, [len(row) - 2 for row in text])
        first += len(text)
    return vectors


def _mean(vectors: Vector, weights: list[int]) -> Vector:
    mean: Vector = np.average(vectors, axis=0, weights=weights)
    return mean / np.linalg.norm(mean)


def _run(session: InferenceSession, tokens: list[list[int]]) -> Vector:
    input_ids = np.zeros((len(tokens), max(map(len, tokens))), dtype=np.int64)
    attention_mask = np.zeros_like(input_ids)
    for row, ids in enumerate(tokens):
        input_ids[row, : len(ids)] = ids
        attention_mask[row, : len(ids)] = 1
    vectors: Vector = session.run(None, {"input_ids": input_ids, "attention_mask": attention_mask})[0]
    return vectors


def register(registry: Registry) -> None:
    registry.register(MiniLMProvider)
