import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.embeddings.minilm import MiniLMProvider
from retrieval.chunking.cl100k import Cl100k, read_ranks
from retrieval.chunking.tokens import MAX_PART_CHARACTERS, TokenCounter, token_counter
from schemas.errors import ConfigurationError

TOKENIZERS = {"cl100k_base": Cl100k(), "minilm": MiniLMProvider({})}
COUNTERS = {"cl100k_base": token_counter(), "minilm": token_counter(TOKENIZERS["minilm"])}


@pytest.fixture(params=COUNTERS)
def name(request) -> str:
    return request.param


@pytest.fixture
def counter(name) -> TokenCounter:
    return COUNTERS[name]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 9),
        ("hello world", 2),
        ("<|endoftext|>", 7),
    ],
)
def test_cl100k_counts_as_openai_documents_it(text, count):
    assert COUNTERS["cl100k_base"].count(text) == count


def test_a_model_with_a_tokenizer_counts_by_it_with_the_tokens_it_adds():
    assert COUNTERS["minilm"].count("hello world") == 4
    assert COUNTERS["minilm"].added() == 2
    assert COUNTERS["cl100k_base"].added() == 0


@given(text=st.text(max_size=80))
@settings(max_examples=40, deadline=None)
def test_there_is_a_start_for_each_token_in_rising_order_and_in_the_text(text):
    for counter in COUNTERS.values():
        starts = counter.starts(text)
        assert len(starts) == counter.count(text) - counter.added()
        assert starts == sorted(starts)
        assert all(0 <= start < len(text) for start in starts)
    # Of characters, not of bytes.
    assert COUNTERS["cl100k_base"].starts("é中 x") == [0, 1, 2]
    assert COUNTERS["minilm"].starts("é中 x") == [0, 1, 3]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["\n\n", " "])
def test_a_long_text_counts_as_the_tokenizer_counts_it_in_one(name, counter, end):
    text = f"The bridge, built in 1887,{end}needs a coat of paint.{end}" * 4_100
    assert len(text) > 2 * MAX_PART_CHARACTERS
    whole = TOKENIZERS[name].count_tokens(text)
    assert counter.count(text) == whole
    assert len(counter.starts(text)) == whole - counter.added()


@pytest.mark.slow
@pytest.mark.parametrize("text", ["a" * 300_000, " " * 300_000 + "x", "\n" * 300_000, "#" * 300_000, "👩‍👩‍👧" * 40_000])
def test_runs_without_end_are_counted(counter, text):
    assert counter.count(text) - counter.added() == len(counter.starts(text))
    # Lone surrogates are left for the embedding to refuse.
    assert counter.count("a \ud800 b") == counter.count("a ? b")


def test_several_threads_count_the_same_and_damaged_ranks_are_refused(counter):
    texts = [f"text {number} " * 50 for number in range(20)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(counter.count, texts)) == [counter.count(text) for text in texts]
    with pytest.raises(ConfigurationError, match="sha256 differs"):
        read_ranks(b"IQ== 0\nIg== 1\n")


@pytest.mark.slow
def test_a_process_that_never_counts_loads_nothing():
    program = (
        "import sys; from retrieval.chunking.tokens import token_counter; token_counter(); "
        "print([name for name in ('tiktoken', 'tokenizers') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
