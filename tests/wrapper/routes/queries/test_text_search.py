"""`POST text-search` ranks texts by BM25, finds identifiers whole and in parts, and takes no query for a syntax
error."""

import pytest

TEXTS = {
    "backup": "Backups are kept for thirty days and then removed.",
    "backups twice": "Backups, backups: how backups are made.",
    "camel": "Call getUserName before HTTPServer.start.",
    "snake": "Set max_retry_count in the settings.",
    "path": "Read std::env and a.b.c from the shell.",
    "umlaut": "Die Größe der Straße im Café.",
    "chinese": "数据库 备份 恢复",
    "empty": "",
    "quotes": 'He said "AND OR NOT" NEAR(the end) * ^ -',
}


@pytest.fixture(scope="module")
def corpus(shared_collection):
    return shared_collection(
        [
            {"id": key, "text": text, "metadata": {"letters": len(text)}, "embedding": [1.0, float(number)]}
            for number, (key, text) in enumerate(TEXTS.items())
        ]
    )


@pytest.fixture
def search(client, corpus):
    def search(query, **fields):
        return client.post(f"/collections/{corpus}/text-search", json={"query": query, "top_k": 10, **fields})

    return search


def _ids(answer):
    assert answer.status_code == 200
    return [each["id"] for each in answer.json["results"]]


def test_the_better_match_comes_first_with_the_higher_score(search):
    answer = search("backups")
    assert _ids(answer) == ["backups twice", "backup"]
    scores = [each["score"] for each in answer.json["results"]]
    assert scores[0] > scores[1] > 0
    assert answer.json["results"][1] == {
        "id": "backup",
        "text": TEXTS["backup"],
        "score": scores[1],
        "metadata": {"letters": len(TEXTS["backup"])},
    }
    assert (answer.json["total"], answer.json["revision"]) == (2, 2)


def test_total_counts_all_matches(search):
    answer = search("backups user café std", top_k=1)
    assert len(_ids(answer)) == 1
    assert answer.json["total"] == 5


def test_a_question_of_a_thousand_words_is_answered_by_its_longest_words(search):
    assert _ids(search("it has " * 700 + "backups of all " + "x1 " * 500)) == ["backups twice", "backup"]
