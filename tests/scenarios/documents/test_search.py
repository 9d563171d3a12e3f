"""Contract *documents*, over HTTP: what a search finds, in which order, and which searches are refused."""

import pytest

from tests.scenarios.documents.conftest import BACKUPS, HOLIDAY, fault


class TestSearch:
    def test_results_are_sorted_and_say_where_they_are_from(self, ingest, search, source):
        first, second = ingest("/a", tags=["x"]), ingest("/b", text=HOLIDAY)
        answer = search()
        assert (answer["query"], answer["resultCount"]) == ("how long are backups kept", 2)
        best, other = answer["results"]
        assert best["text"] == BACKUPS
        assert 1 >= best["score"] > other["score"] >= 0
        assert (
            best["metadata"].items()
            >= {
                "documentId": first["documentId"],
                "source": source,
                "path": "/a",
                "title": "Title of /a",
                "chunkIndex": 0,
                "tags": ["x"],
            }.items()
        )
        assert other["metadata"]["documentId"] == second["documentId"]

    def test_the_query_is_required_and_top_k_is_5_by_default_and_at_most_20(self, client, ingest, search):
        for body in ({}, {"query": None}):
            assert fault(client.post("/api/rag/search", json=body).json) == ("query", "query is required")
        for wrong in ("", " ", 7):
            assert fault(client.post("/api/rag/search", json={"query": wrong}).json)[0] == "query"
        for number in range(7):
            ingest(f"/{number}", text=f"{BACKUPS} Copy {number}.")
        assert search()["resultCount"] == 5
        assert search(topK=7)["resultCount"] == 7
        assert search(topK=1)["resultCount"] == 1
        for wrong in (0, 21, -1, 2.5, "5", True):
            assert fault(search(topK=wrong, status=400))[0] == "topK"

    def test_relevance_and_score_are_told_and_filter_where_asked_to(self, ingest, search):
        ingest("/a")
        ingest("/b", text=HOLIDAY)
        scores = [each["score"] for each in search()["results"]]
        between = sum(scores) / 2
        assert [each["score"] for each in search(minScore=between)["results"]] == scores[:1]
        assert search(minScore=1)["results"] == []
        for wrong in (-0.1, 1.1, "0.5", True):
            assert fault(search(minScore=wrong, status=400))[0] == "minScore"
        results = search()["results"]
        relevances = [each["relevance"] for each in results]
        assert relevances[0] > 0.9 > relevances[1]
        assert [each["relevance"] for each in search(min_relevance=0.6)["results"]] == relevances[:1]
        assert search("How do I cook pasta?")["resultCount"] == 2, "by default nothing is left out"
        assert search("How do I cook pasta?", min_relevance=0.6)["results"] == []
        assert search("How do I cook pasta?", min_relevance=None)["resultCount"] == 2
        for wrong in (-0.1, 1.1, "0.5", True):
            assert fault(search(min_relevance=wrong, status=400))[0] == "min_relevance"
        assert search(topK=None, minScore=None, nonsense=1)["resultCount"] == 2

    @pytest.mark.slow
    def test_source_and_tags_filter_inside_the_query_and_one_matching_tag_is_enough(self, ingest, search):
        ingest("/a", tags=["red", "green"])
        ingest("/b", tags=["blue"])
        ingest("/c")

        def paths(**filters):
            return sorted(each["metadata"]["path"] for each in search(filters=filters)["results"])

        assert paths() == ["/a", "/b", "/c"]
        assert paths(tags=["red"]) == ["/a"]
        assert paths(tags=["green", "blue"]) == ["/a", "/b"]
        assert paths(tags=["yellow"]) == []
        assert paths(tags=[]) == ["/a", "/b", "/c"]
        assert paths(source="nowhere", tags=["red"]) == []
        for number in range(30):
            ingest(f"/near-{number}", text=f"{BACKUPS} {number}")
        ingest("/far", text=HOLIDAY, tags=["rare"])
        assert search(topK=1, filters={"tags": ["rare"]})["results"][0]["metadata"]["path"] == "/far"
