"""`rag-wrapper search`: what it asks, what it shows and how it ends."""

import json
import re
import uuid

import pytest

TEXTS = {
    "backups": "Backups run every night at two. They are encrypted and kept for thirty days.",
    "restore": "To restore a backup, stop the service and put the file into an empty directory.",
    "holidays": "Employees have thirty days of holidays in a year.",
}


@pytest.fixture(scope="module")
def library(app, upload):
    """A collection of four documents, of which one has pages."""
    name = f"asked-{uuid.uuid4().hex[:8]}"
    for path, text in TEXTS.items():
        upload(name, f"wiki/{path}.md", text)
    parts = [f"## Part {number}\n\nThe valve number {number} opens at {number} bar." for number in range(5)]
    upload(name, "wiki/valves.md", "\n\n".join(parts))
    set_page(app.test_client(), name, "wiki/backups.md", 12)
    yield name
    app.test_client().delete(f"/collections/{name}")


def set_page(client, collection, source, page):
    """Have a stored document of one chunk stand on a page."""
    (stored,) = client.get(f"/collections/{collection}/documents?where={json.dumps({'source': source})}").json[
        "documents"
    ]
    place = f"/collections/{collection}/documents/{stored['id']}"
    assert client.patch(place, json={"metadata": {"page": page}}).status_code == 200


def without_times(answer):
    for oracle in answer["receipt"]["oracles"].values():
        oracle.pop("latency_ms", None)
    return answer


def test_a_hit_is_a_place_a_relevance_and_a_passage(run, library):
    result = run("search", "when do backups run?", "--collection", library, "--top-k", 1)
    assert result.exit_code == 0
    head, passage = result.stdout.splitlines()
    assert re.fullmatch(r"wiki/backups\.md p\. 12  backups\.md  \d+%", head)
    assert passage == f"    {TEXTS['backups']}"
    assert result.stderr == ""


def test_nothing_relevant_is_said_with_what_was_asked(run, library):
    result = run("search", "Which shoes do penguins wear?", "--collection", library)
    assert result.exit_code == 1
    first, second = result.stdout.splitlines()
    assert first == f"Nothing relevant was found. Asked: {library}."
    assert re.fullmatch(r"Less relevant than \d+%, and left out: \d+; --min-relevance 0 shows them\.", second)
    assert run("search", "Which shoes do penguins wear?", "--collection", library, "--min-relevance", 0).exit_code == 0


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ((), {}),
        (("--top-k", 1), {"limit": 1}),
        (("--min-relevance", "0"), {"min_relevance": 0}),
        (("--where", '{"page": 12}'), {"where": {"page": 12}}),
        (("--oracle", "lexical"), {"oracles": ["lexical"]}),
        (("--fusion", "rrf"), {"fusion": "rrf"}),
        (("--explain",), {"explain": True}),
        (
            ("--context", 1),
            {"gather": {"by": "document_id", "order_by": ["chunk_index"], "before": 1, "after": 1}},
        ),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) and value else None,
)
def test_json_is_the_answer_of_the_route(run, client, library, options, body):
    result = run("search", "backup", "--collection", library, "--json", *options)
    asked = {"query": "backup", "limit": 10, "collections": [library], **body}
    expected = client.post("/api/search", json=asked)
    assert expected.status_code == 200, expected.json
    assert without_times(json.loads(result.stdout)) == without_times(expected.json)
    assert result.exit_code == (0 if expected.json["results"] else 1)


def test_neighbours_stand_around_a_hit_in_their_order(run, library):
    result = run("search", "Part 2: valve number 2", "--collection", library, "--top-k", 1, "--context", 1)
    numbers = re.findall(r"The valve number (\d)", result.stdout)
    assert numbers == ["1", "2", "3"]
    quoted = [line for line in result.stdout.splitlines() if line.startswith("  | ")]
    assert re.findall(r"The valve number (\d)", "\n".join(quoted)) == ["1", "3"]
    assert len([line for line in quoted if re.search(r"\.md:\d+$", line)]) == 2


def test_an_explanation_says_who_found_what_and_what_was_cut(run, library):
    shown = run("search", "when do backups run?", "--collection", library, "--top-k", 1, "--explain").stdout
    assert re.search(r"found by semantic #1 \(0\.\d{3}\), lexical #1 \(0\.\d{3}\)", shown)
    assert re.search(r"#1 with score \d\.\d{3}, rrf 0\.\d{4}; without smoothing #1 with score \d\.\d{3}", shown)
    assert re.search(r"wiki/\w+\.md(:\d+)?: (cut|left out): rank 2 of", shown) or "left out: rank 2" in shown
    assert "fusion: smoothed, candidates compared by vectors and words" in shown
    assert f"collection {library}: asked" in shown


def test_long_passages_are_cut_around_the_words_and_shown_whole_if_wanted(run, upload, collection):
    words = "stone water light grass cloud " * 20
    text = f"{words}where the heron stands on one leg {words}".strip()
    upload(collection, "heron.md", text)
    ask = ("search", "heron leg", "--collection", collection, "--min-relevance", 0)
    cut, whole = run(*ask).stdout, run(*ask, "--full").stdout
    assert "the heron stands on one leg" in cut
    assert re.search(r"^ +… \w+ ", cut, re.MULTILINE)
    assert len(cut) < 1_000
    assert "…" not in whole
    assert text in whole.replace("\n    ", " ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--where", "{"), "Invalid value for '--where': is not JSON"),
        (("--where", "[]"), "must be a JSON object"),
        (("--where", '{"a": {"$nope": 1}}'), "$nope"),
        (("--top-k", 0), "Invalid value for '--top-k'"),
        (("--min-relevance", 2), "Invalid value for '--min-relevance'"),
        (("--collection", "nobodys"), "Collection 'nobodys' not found"),
        (("--oracle", "nobody"), "There is no oracle 'nobody'"),
        (("--rerank", "nobody"), "nobody"),
        (("--url", "http://127.0.0.1:1", "--data-dir", "x"), "Give --url or --data-dir, not both."),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_what_cannot_be_asked_is_one_sentence(run, library, options, said):
    result = run("search", "backup", *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert said in result.stderr
    assert "Traceback" not in result.stderr
