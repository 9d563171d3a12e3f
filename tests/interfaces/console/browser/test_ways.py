"""Ways that people go: from a document to an answer, judging, filtering and paging, deleting by a filter."""

import re

import orjson
import pytest
import requests
from playwright.sync_api import expect

from tests.interfaces.console.conftest import ADMIN
from tests.support.live import PATIENCE_SECONDS
from tests.support.model_server import as_events

DOCUMENTS = 2_000
POEM = "# Otters\n\nAn otter holds hands with its mate while both are asleep on the water.\n"
YEARS, TOPICS = range(2000, 2020), ("river", "lake", "sea", "pond")


@pytest.fixture(scope="module")
def shelf(service):
    """A collection of 2,000 documents, 100 of each year and 500 of each topic."""
    url = f"{service.url}/collections"
    assert requests.post(url, json={"name": "shelf"}, headers=ADMIN, timeout=PATIENCE_SECONDS).status_code == 201
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
    answer = requests.post(f"{url}/shelf/documents", data=b"\n".join(lines), headers=headers, timeout=PATIENCE_SECONDS)
    assert answer.json()["count"] == DOCUMENTS
    return "shelf"


def test_two_thousand_documents_are_filtered_and_paged_through(shelf, admin_tab):
    page = admin_tab.open(f"/collections/{shelf}")
    expect(page.locator("main")).to_contain_text("2,000 documents")
    page.get_by_label("Field", exact=True).fill("year")
    page.get_by_label("Condition").select_option("at least")
    page.get_by_label("Value", exact=True).fill("2018")
    page.get_by_label("Sort by").fill("-number")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("main")).to_contain_text("200 documents that match")
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
    expect(page.locator("main")).to_contain_text("200 documents that match")


def test_an_editor_deletes_by_a_filter(shelf, service, tab):
    wanted = {"name": "editor", "scopes": ["write"], "collections": [shelf]}
    key = requests.post(f"{service.url}/api/keys", json=wanted, headers=ADMIN, timeout=PATIENCE_SECONDS).json()["key"]
    tab.sign_in(key)
    place = f"{service.url}/collections/{shelf}/documents"
    page = tab.open(f"/collections/{shelf}?field=year&op=%24eq&value=2005")
    page.get_by_role("link", name="Delete them …").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Delete 100 documents from shelf?")
    # Meanwhile somebody else writes: nothing is deleted before it was looked at again.
    more = {"documents": [{"id": "late", "text": "late", "metadata": {"year": 2005}, "embedding": [0.0, 1.0]}]}
    requests.post(place, json=more, headers=ADMIN, timeout=PATIENCE_SECONDS)
    page.get_by_role("button", name="Delete 100 documents").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing was deleted")
    page.get_by_role("button", name="Delete 101 documents").click()
    expect(page.get_by_role("status")).to_contain_text("101 documents were deleted")
    count = requests.get(f"{place}/count", headers=ADMIN, timeout=PATIENCE_SECONDS).json()["count"]
    assert count == DOCUMENTS - 100


def test_a_key_is_made_rotated_and_revoked(admin_tab):
    page = admin_tab.open("/service/keys")
    page.get_by_label("Name").fill("made here")
    page.get_by_label("write", exact=True).check()
    page.get_by_role("button", name="Make the key").click()
    key = page.get_by_label("The new key").input_value()
    assert key.startswith("rw_")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Rotate made here").click()
    expect(page.get_by_label("The new key")).to_have_value(re.compile("^rw_"))
    assert page.get_by_label("The new key").input_value() != key
    page = admin_tab.open("/service/keys")
    page.get_by_role("button", name="Revoke made here").first.click()
    expect(page.locator("tbody")).to_contain_text("revoked")


def test_a_file_is_dropped_found_and_answered_from(admin_tab, models, tmp_path):
    file = tmp_path / "otters.md"
    file.write_text(POEM)
    page = admin_tab.open("/documents")
    page.get_by_label("Files", exact=True).set_input_files(file)
    expect(page.locator("#uploads")).to_contain_text("done")
    expect(page.locator("#uploads tbody tr")).to_have_text(re.compile(r"otters\.md\s*done"))

    ended = "<p role=alert>Your session has ended</p>"
    page.route("**/documents/jobs/*", lambda route: route.fulfill(content_type="text/html", body=ended))
    page.locator("#files").set_input_files(file)
    expect(page.locator("#uploads [role=alert]")).to_have_text("Your session has ended")
    page.unroute_all()

    page.get_by_role("link", name="Ask", exact=True).click()
    page.get_by_label("Question").fill("Why does an otter hold hands?")
    page.get_by_role("button", name="Search").click()
    first = page.locator("#hit-1")
    expect(first).to_contain_text("asleep on the water")
    expect(first.locator("mark").first).to_be_visible()

    models.script.append(
        as_events(
            {"choices": [{"delta": {"content": "So that they do not drift apart "}}]},
            {"choices": [{"delta": {"content": "[1]."}, "finish_reason": "stop"}]},
            "[DONE]",
        )
    )
    page.get_by_role("button", name="Answer").click()
    expect(page.locator("#chat .text")).to_contain_text("drift apart [1].")
    page.get_by_label("Question").fill("And their pups?")
    page.get_by_role("button", name="Answer").click()
    expect(page.locator("#chat .question")).to_have_text(["Why does an otter hold hands?", "And their pups?"])
    expect(page.locator("#chat .status").last).to_contain_text(re.compile("source|Nothing"))
    page.locator("#chat article").first.get_by_role("link", name="[1]").click()
    expect(page).to_have_url(re.compile("#source-1-1$"))
    page.locator("#source-1-1").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Otters")


def test_a_passage_is_judged_a_measurement_begun_and_read_and_the_judgement_taken_back(admin_tab):
    page = admin_tab.open("/ask?q=When+do+backups+run%3F")
    first = page.locator("#hit-1")
    relevant = first.get_by_role("button", name="Relevant", exact=True)
    relevant.click()
    expect(relevant).to_have_attribute("aria-pressed", "true")
    page.reload()
    expect(relevant).to_have_attribute("aria-pressed", "true")
    first.get_by_role("button", name="Not relevant").click()
    expect(first.get_by_role("button", name="Not relevant")).to_have_attribute("aria-pressed", "true")
    expect(relevant).to_have_attribute("aria-pressed", "false")
    first.get_by_role("button", name="Not relevant").click()
    expect(first.get_by_role("button", name="Not relevant")).to_have_attribute("aria-pressed", "false")
    page.get_by_role("link", name="Quality", exact=True).click()
    expect(page.get_by_text("Nothing has been judged yet.")).to_be_visible()
    page = admin_tab.open("/ask?q=When+do+backups+run%3F")
    relevant = page.locator("#hit-1").get_by_role("button", name="Relevant", exact=True)
    relevant.click()
    expect(relevant).to_have_attribute("aria-pressed", "true")
    page.get_by_role("link", name="Quality", exact=True).click()
    page.get_by_role("button", name="Measure the search").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    expect(page.get_by_role("row", name="fused smoothed")).to_contain_text("1.000")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("link", name="Quality", exact=True).click()
    page.get_by_role("button", name="remove").click()
    expect(page.get_by_text("Nothing has been judged yet.")).to_be_visible()
