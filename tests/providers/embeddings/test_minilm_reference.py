"""The ONNX graph agrees with a second implementation of BERT: NumPy, our own reader of the weights, our own
WordPiece."""

import json
import math
import unicodedata

import numpy as np
import pytest

from providers.embeddings.minilm_parts import locate_model, weights_file

TEXTS = [
    "hello world",
    "The quick brown fox jumps over the lazy dog.",
    "Café Zürich: naïve façade, 100% déjà-vu!",
    "antidisestablishmentarianism vs. pneumonoultramicroscopicsilicovolcanoconiosis",
    "def add(a, b):\n\treturn a + b  # adds 2 numbers",
    "東京は日本の首都です",
    "Retrieval augmented generation stores documents with embeddings and finds them by meaning. " * 12,
    "A very long text whose window ends somewhere in the middle of its many words, and then goes on. " * 20,
]


@pytest.fixture(scope="module")
def weights():
    data = weights_file(locate_model()).read_bytes()
    header_bytes = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + header_bytes])
    body = memoryview(data)[8 + header_bytes :]
    return {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], dtype="<f4").reshape(entry["shape"]).astype(np.float64)
        for name, entry in header.items()
        if name != "__metadata__" and entry["dtype"] == "F32"
    }


@pytest.fixture(scope="module")
def vocabulary():
    lines = (locate_model() / "vocab.txt").read_text(encoding="utf-8").splitlines()
    return {token: number for number, token in enumerate(lines)}


def wordpieces(text, vocabulary):
    """Tokenise as uncased BERT does: lower case, accents off, punctuation and ideographs apart, greedy longest
    pieces."""
    words, word = [], ""
    for char in unicodedata.normalize("NFD", text.lower()):
        category = unicodedata.category(char)
        apart = category.startswith("P") or char in "$+<=>^`|~" or 0x4E00 <= ord(char) <= 0x9FFF
        if category == "Mn":
            continue
        if apart or char.isspace():
            words += [word, char if apart else ""]
            word = ""
        else:
            word += char
    ids = [vocabulary["[CLS]"]]
    for found in filter(None, [*words, word]):
        ids += pieces_of(found, vocabulary)
    return [*ids, vocabulary["[SEP]"]]


def pieces_of(word, vocabulary):
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                pieces.append(vocabulary[piece])
                start = end
                break
        else:
            return [vocabulary["[UNK]"]]
    return pieces


def bert(ids, weights):
    """Return the mean-pooled, normalised float64 embedding of one text: no batch, no mask, nothing shared with the
    product."""

    def linear(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(6):
        name = f"encoder.layer.{layer}"
        heads = []
        q, k, v = (linear(x, f"{name}.attention.self.{part}") for part in ("query", "key", "value"))
        for head in range(12):
            columns = slice(head * 32, head * 32 + 32)
            similarity = q[:, columns] @ k[:, columns].T / math.sqrt(32)
            attention = np.exp(similarity - similarity.max(-1, keepdims=True))
            heads.append(attention / attention.sum(-1, keepdims=True) @ v[:, columns])
        mixed = linear(np.concatenate(heads, axis=1), f"{name}.attention.output.dense")
        x = norm(x + mixed, f"{name}.attention.output.LayerNorm")
        wide = linear(x, f"{name}.intermediate.dense")
        wide = wide * 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))
        x = norm(x + linear(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


def embedding(text, vocabulary, weights):
    """Return the mean of the embeddings of 254 pieces at a time, each weighted by its share of the pieces."""
    begin, *pieces, end = wordpieces(text, vocabulary)
    windows = [pieces[start : start + 254] for start in range(0, len(pieces), 254)]
    mean = sum(len(window) * bert([begin, *window, end], weights) for window in windows)
    return mean / np.linalg.norm(mean)


def test_the_graph_agrees_with_an_independent_bert(minilm, weights, vocabulary):
    expected = np.stack([embedding(text, vocabulary, weights) for text in TEXTS])
    cosines = (minilm.embed(TEXTS) * expected).sum(axis=1)
    assert cosines.min() >= 0.999999


def test_tokens_are_counted_as_bert_counts_them(minilm, vocabulary):
    for text in TEXTS:
        assert minilm.count_tokens(text) == len(wordpieces(text, vocabulary))
