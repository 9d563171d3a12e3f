"""A table's header stands above each of its pieces, which is the only thing that chunks repeat; and how many tokens a text has."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from providers.embeddings.minilm import MiniLMProvider
from retrieval.chunking import StructuredText, estimate_tokens, split_sections, split_whole, split_windows
from retrieval.chunking.tokens import MAX_PART_CHARACTERS, Cl100k, read_ranks, token_counter
from schemas.errors import ConfigurationError
from tests.retrieval.chunking.texts import inked

CL100K = token_counter()


def by_sections(text, max_tokens):
    return [chunk.text for chunk in split_sections(text, max_tokens=max_tokens)]


def by_windows(text, max_tokens):
    return [chunk.text for chunk in split_windows(text, tokens=CL100K, max_tokens=max_tokens, overlap_tokens=0)]


def by_whole(text, max_tokens):
    return [chunk.text for chunk in split_whole(text, tokens=CL100K, max_tokens=max_tokens).chunks]


PROFILES = {by_sections: estimate_tokens, by_windows: CL100K.count, by_whole: CL100K.count}


def table(names, rows):
    delimiter = "|".join("---" for _ in names)
    lines = [f"| {' | '.join(names)} |", f"|{delimiter}|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


@st.composite
def documents(draw):
    """Draw (text, [(header, start of the rows, end)] of its tables). No two words of a text are the same."""
    numbers = count()

    def words(least, most):
        return " ".join(f"w{next(numbers)}" for _ in range(draw(st.integers(least, most))))

    text, tables = "", []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            text += f"{draw(st.sampled_from(['', '- ', '> ']))}{words(1, 60)}.\n\n"
            continue
        columns = draw(st.integers(1, 4))
        rows = [[words(1, 3) for _ in range(columns)] for _ in range(draw(st.integers(1, 12)))]
        made = table([words(1, 1) for _ in range(columns)], rows)
        header = "".join(made.splitlines(keepends=True)[:2])
        tables.append((header, len(text) + len(header), len(text) + len(made)))
        text += f"{made}\n"
    return text, tables


def check(chunks, text, tables):
    """Chunks follow each other in the text, and exactly those that begin in a table's rows have its header above."""
    ink = [place for place, character in enumerate(text) if not character.isspace()]
    position = 0
    for chunk in chunks:
        place = ink[position]
        above = [header for header, body, end in tables if body <= place < end]
        own = chunk.removeprefix(above[0]) if above else chunk
        assert own != chunk or not above, (place, chunk)
        size = len(inked(own))
        assert inked(own) == "".join(text[each] for each in ink[position : position + size])
        position += size
    assert position == len(ink)


@pytest.mark.parametrize("split", PROFILES)
@given(documents(), st.integers(100, 300))
@settings(max_examples=50, deadline=None)
def test_each_piece_of_a_table_has_its_header_and_nothing_else_is_repeated(split, document, max_tokens):
    text, tables = document
    chunks = split(text, max_tokens)
    assert all(PROFILES[split](chunk) <= max_tokens for chunk in chunks)
    check(chunks, text, tables)


def test_the_overlap_of_windows_is_below_the_header():
    rows = [[f"name {number}", f"value {number}"] for number in range(200)]
    header, *_ = table(["name", "value"], rows).partition("| name 0")
    chunks = split_windows(table(["name", "value"], rows), tokens=CL100K, max_tokens=100, overlap_tokens=20)
    assert len(chunks) > 5
    assert all(chunk.text.startswith(f"{header}| name ") for chunk in chunks)
    assert all(50 <= CL100K.count(chunk.text) <= 100 for chunk in chunks[:-1])


@pytest.mark.parametrize("split", PROFILES)
def test_a_header_of_more_than_half_a_chunk_is_not_repeated(split):
    names = [f"a rather long name of column {number}" for number in range(12)]
    text = table(names, [[f"row{row}col{column}" for column in range(12)] for row in range(30)])
    chunks = split(text, 120)
    assert all(PROFILES[split](chunk) <= 120 for chunk in chunks)
    assert inked("".join(chunks)) == inked(text)


@pytest.mark.parametrize("split", PROFILES)
def test_a_row_that_is_longer_than_a_chunk_keeps_the_header_above_each_piece(split):
    header = "| name | text |\n|---|---|\n"
    text = f"{header}| one | {' '.join(f'word{number}' for number in range(300))} |\n| two | short |\n"
    chunks = split(text, 100)
    assert len(chunks) > 4
    assert all(chunk.startswith(header) and len(chunk) > len(header) for chunk in chunks)
    assert inked("".join(chunk.removeprefix(header) for chunk in chunks)) == inked(text.removeprefix(header))


def test_a_table_in_a_list_or_a_quotation_is_one_too_and_one_of_thirty_thousand_rows():
    for mark in ("> ", "  "):
        rows = "".join(f"{mark}| {number} | value {number} |\n" for number in range(60))
        text = ("" if mark == "> " else "- Item\n\n") + f"{mark}| a | b |\n{mark}|---|---|\n{rows}"
        chunks = by_sections(text, 60)
        assert len(chunks) > 3
        assert all(chunk.startswith(f"{mark}| a | b |\n{mark}|---|---|\n") for chunk in chunks[1:]), chunks
    rows = "".join(f"| {number} | x |\n" for number in range(30_000))
    document = StructuredText(f"# Sheet\n\n| n | x |\n|---|---|\n{rows}\n# Next\n")
    assert (document.is_plain, len(document.tables)) == (False, 1)
    assert [heading.title for heading in document.headings] == ["Sheet", "Next"]


@pytest.mark.parametrize(
    "text", ["```\n| a |\n|---|\n| 1 |\n```", "| a | b |\n|---|\n| 1 |", "    | a |\n    |---|\n", "| a\n\n|---|\n"]
)
def test_what_only_looks_like_a_table_is_none(text):
    assert StructuredText(text).tables == []


@pytest.mark.parametrize(
    ("after", "rows"),
    [("\n# Next", 1), ("\n> quoted", 1), ("\n- item", 1), ("\nwithout pipes", 2), ("\n\n| 9 |", 1), ("", 1)],
)
def test_a_table_ends_where_another_block_begins(after, rows):
    text = f"| a |\n|---|\n| 1 |{after}"
    [found] = StructuredText(text).tables
    assert (found.start, text[found.body : found.end].strip().count("\n")) == (0, rows - 1)


@pytest.mark.slow
@given(st.text("|-: a\n>#", max_size=60))
@example("a|b\n-|-\n1|2")
@settings(max_examples=300, deadline=None)
def test_tables_are_those_of_the_parser(text):
    parsed = MarkdownIt("commonmark").enable("table").parse(text)
    document = StructuredText(text)
    assert [document.line_of(found.start) - 1 for found in document.tables] == [
        token.map[0] for token in parsed if token.type == "table_open"
    ]
    assert [heading.start for heading in document.headings] == [
        document.line_starts[token.map[0]] for token in parsed if token.type == "heading_open" and token.level == 0
    ]


TOKENIZERS = {"cl100k_base": Cl100k(), "minilm": MiniLMProvider({})}
COUNTERS = {"cl100k_base": token_counter(), "minilm": token_counter(TOKENIZERS["minilm"])}


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
@pytest.mark.parametrize("name", COUNTERS)
def test_a_long_text_counts_as_the_tokenizer_counts_it_in_one(name, end):
    counter = COUNTERS[name]
    text = f"The bridge, built in 1887,{end}needs a coat of paint.{end}" * 4_100
    assert len(text) > 2 * MAX_PART_CHARACTERS
    whole = TOKENIZERS[name].count_tokens(text)
    assert counter.count(text) == whole
    assert len(counter.starts(text)) == whole - counter.added()


@pytest.mark.slow
@pytest.mark.parametrize("text", ["a" * 300_000, " " * 300_000 + "x", "\n" * 300_000, "#" * 300_000, "👩‍👩‍👧" * 40_000])
@pytest.mark.parametrize("counter", COUNTERS.values(), ids=COUNTERS)
def test_runs_without_end_are_counted(counter, text):
    assert counter.count(text) - counter.added() == len(counter.starts(text))
    # Lone surrogates are left for the embedding to refuse.
    assert counter.count("a \ud800 b") == counter.count("a ? b")


@pytest.mark.parametrize("counter", COUNTERS.values(), ids=COUNTERS)
def test_several_threads_count_the_same_and_damaged_ranks_are_refused(counter):
    texts = [f"text {number} " * 50 for number in range(20)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(counter.count, texts)) == [counter.count(text) for text in texts]
    with pytest.raises(ConfigurationError, match="sha256 differs"):
        read_ranks(b"IQ== 0\nIg== 1\n")
