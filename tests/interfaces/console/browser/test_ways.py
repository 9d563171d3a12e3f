"""Ways that people go: filtering and paging, editing, and deleting by a filter."""

from __future__ import annotations

import re

import orjson
import pytest
import requests
from playwright.sync_api import expect

from tests.interfaces.console.conftest import ADMIN

DOCUMENTS = 10_000
YEARS, TOPICS = range(2000, 2020), ("river", "lake", "sea", "pond")


@pytest.fixture(scope="module")
def shelf(service):
    """A collection of 10,000 documents, 500 of each year and 2,500 of each topic."""
    url = f"{service.url}/collections"
    assert requests.post(url, json={"name": "shelf"}, headers=ADMIN, timeout=60).status_code == 201
    lines = (
        orjson.dumps(
            {
                "id": f"doc-{number}",
                "text": f"The {TOPICS[number % 4]} in {YEARS[number % 20]}, {number}",
                "metadata": {"year": YEARS[number % 20], "topic": TOPICS[number // 4 % 4], "number": number},
                "embedding": [1.0, number / DOCUMENTS],
            }
        )
        for number in range(DOCUMENTS)
    )
    headers = {**ADMIN, "Content-Type": "application/x-ndjson"}
    answer = requests.post(f"{url}/shelf/documents", data=b"\n".join(lines), headers=headers, timeout=120)
    assert answer.json()["count"] == DOCUMENTS
    return "shelf"


def test_ten_thousand_documents_are_filtered_and_paged_through(shelf, admin_tab):
    page = admin_tab.open(f"/collections/{shelf}")
    expect(page.locator("main")).to_contain_text("10,000 documents")
    page.get_by_label("Field", exact=True).fill("year")
    page.get_by_label("Condition").select_option("at least")
    page.get_by_label("Value", exact=True).fill("2018")
    page.get_by_label("Sort by").fill("-number")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("main")).to_contain_text("1,000 documents that match")
    assert orjson.loads(page.locator("#where").input_value()) == {"year": {"$gte": 2018}}

    page.get_by_role("complementary").get_by_role("link", name="river", exact=True).click()
    expect(page.get_by_role("link", name="Without: topic has river")).to_be_visible()
    total = int(re.search(r"(\d+) documents? that match", page.locator("main").inner_text())[1])
    seen = []
    while True:
        seen += page.locator("article h2").all_inner_texts()
        following = page.get_by_role("link", name="Next →")
        if not following.count():
            break
        following.click()
        page.wait_for_load_state()
    numbers = [int(each.removeprefix("doc-")) for each in seen]
    wanted = [n for n in range(DOCUMENTS) if YEARS[n % 20] >= 2018 and TOPICS[n // 4 % 4] == "river"]
    assert total == len(wanted)
    assert numbers == wanted[::-1]

    page.get_by_role("link", name="Without: topic has river").click()
    expect(page.locator("main")).to_contain_text("1,000 documents that match")


def test_an_editor_changes_a_document_and_deletes_by_a_filter(shelf, service, tab):
    wanted = {"name": "editor", "scopes": ["write"], "collections": [shelf]}
    key = requests.post(f"{service.url}/api/keys", json=wanted, headers=ADMIN, timeout=60).json()["key"]
    tab.sign_in(key)
    page = tab.open(f"/collections/{shelf}/document?id=doc-7")
    page.get_by_text("Edit or delete").click()
    page.get_by_label("Text").fill("A new text")
    page.get_by_label("Metadata").fill('{"year": 1999, "moved": {"from": null}}')
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".card .passage")).to_have_text("A new text")
    told = requests.get(f"{service.url}/collections/{shelf}/documents/doc-7", headers=ADMIN, timeout=60).json()
    assert told["metadata"] == {"year": 1999, "moved": {"from": None}} or told["metadata"] == {
        "year": 1999,
        "moved": {},
    }

    page = tab.open(f"/collections/{shelf}?field=year&op=%24eq&value=2005")
    page.get_by_role("link", name="Delete them …").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Delete 500 documents from shelf?")
    # Meanwhile somebody else writes: nothing is deleted before it was looked at again.
    more = {"documents": [{"id": "late", "text": "late", "metadata": {"year": 2005}, "embedding": [0.0, 1.0]}]}
    requests.post(f"{service.url}/collections/{shelf}/documents", json=more, headers=ADMIN, timeout=60)
    page.get_by_role("button", name="Delete 500 documents").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing was deleted")
    page.get_by_role("button", name="Delete 501 documents").click()
    expect(page.get_by_role("status")).to_contain_text("501 documents were deleted")
    count = requests.get(f"{service.url}/collections/{shelf}/documents/count", headers=ADMIN, timeout=60).json()
    assert count["count"] == DOCUMENTS - 500


def test_a_key_with_one_collection_sees_only_that(shelf, service, tab):
    wanted = {"name": "reader", "scopes": ["read"], "collections": [shelf]}
    key = requests.post(f"{service.url}/api/keys", json=wanted, headers=ADMIN, timeout=60).json()["key"]
    tab.sign_in(key)
    page = tab.open("/collections")
    assert page.locator("tbody th").all_inner_texts() == [shelf]
    assert page.get_by_role("navigation", name="Console").get_by_role("link", name="Service").count() == 0
    for path in ("/collections/rag-documents", "/service", "/service/keys"):
        page = tab.open(path)
        assert page.get_by_role("heading", level=1).inner_text() in (
            "There is nothing here",
            "Your key does not allow this",
        )
    tab.complaints.clear()  # the browser says that these pages were refused
    page = tab.open("/ask?q=backups")
    assert "Handbook" not in page.locator("body").inner_text()


def test_a_key_is_made_changed_rotated_and_revoked(admin_tab):
    page = admin_tab.open("/service/keys")
    page.get_by_label("Name").fill("made here")
    page.get_by_label("write", exact=True).check()
    page.get_by_role("button", name="Make the key").click()
    key = page.get_by_label("The new key").input_value()
    assert key.startswith("rw_")
    page.get_by_role("link", name="made here").click()
    page.get_by_label("Collections").fill("handbook, team-*")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("The key is changed")
    expect(page.get_by_label("Collections")).to_have_value("handbook, team-*")
    page.get_by_role("link", name="Keys").first.click()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Rotate made here").click()
    expect(page.get_by_label("The new key")).to_have_value(re.compile("^rw_"))
    assert page.get_by_label("The new key").input_value() != key
    page = admin_tab.open("/service/keys")
    page.get_by_role("button", name="Revoke made here").first.click()
    expect(page.locator("tbody")).to_contain_text("revoked")
