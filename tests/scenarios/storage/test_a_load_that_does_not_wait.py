"""Ada fills a library in a hurry: she does not wait for the index, and misses nothing."""

import numpy as np

from tests.support.live import eventually

PAGES, DIMENSION = 120, 8
LOAD = 40


def _page(number, **metadata):
    vector = np.random.default_rng(number).normal(size=DIMENSION)
    return {
        "id": f"page-{number}",
        "text": f"This is page {number}.",
        "metadata": {"number": number, **metadata},
        "embedding": vector.tolist(),
    }


def _nearest(client, name, page):
    answer = client.post(f"/collections/{name}/query", json={"query_embedding": page["embedding"], "top_k": 1})
    assert answer.status_code == 200
    return answer.json["results"][0]


def test_a_library_that_is_filled_without_waiting_is_found_at_once_and_indexed_in_the_end(client, chroma, filled):
    name = filled()
    pages = [_page(number) for number in range(PAGES)]

    # She sends her pages, and each time asks at once for the last one that was acknowledged.
    for start in range(0, PAGES, LOAD):
        load = pages[start : start + LOAD]
        added = client.post(f"/collections/{name}/documents?wait=commit", json={"documents": load})
        assert (added.status_code, added.json["indexed"], added.json["created"]) == (201, False, LOAD)
        assert _nearest(client, name, load[-1])["id"] == load[-1]["id"]

    # A page was wrong, another one is outdated: what she is told of them is true from then on.
    wrong, outdated = pages[7], pages[100]
    corrected = {"text": "This is what page 7 should say.", "metadata": {"corrected": True}}
    assert client.patch(f"/collections/{name}/documents/page-7?wait=commit", json=corrected).status_code == 200
    assert _nearest(client, name, wrong)["text"] == corrected["text"]
    gone = client.delete(f"/collections/{name}/documents?wait=commit", json={"ids": ["page-100"]})
    assert (gone.status_code, gone.json["count"]) == (200, 1)
    assert _nearest(client, name, outdated)["id"] != "page-100"
    assert client.get(f"/collections/{name}/documents/count").json["count"] == PAGES - 1

    # The index follows by itself, and in the end has what she was told, no more and no less.
    def has_caught_up():
        return client.get(f"/collections/{name}/index").json["waiting_writes"] == 0

    eventually(has_caught_up)
    held = chroma.get_collection(name).get(include=["documents", "metadatas"])
    texts = dict(zip(held["ids"], held["documents"], strict=True))
    assert set(texts) == {page["id"] for page in pages} - {"page-100"}
    assert texts["page-7"] == corrected["text"]
    assert held["metadatas"][held["ids"].index("page-7")] == {"number": 7, "corrected": True}
