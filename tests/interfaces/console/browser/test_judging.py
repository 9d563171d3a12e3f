"""Thumbs in a browser: pressed, kept, and taken back without a new page."""

from __future__ import annotations

from playwright.sync_api import expect


def test_a_passage_is_judged_and_the_judgement_taken_back(admin_tab):
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


def test_a_measurement_is_begun_and_read(admin_tab):
    page = admin_tab.open("/ask?q=When+do+backups+run%3F")
    relevant = page.locator("#hit-1").get_by_role("button", name="Relevant", exact=True)
    relevant.click()
    expect(relevant).to_have_attribute("aria-pressed", "true")
    page.get_by_role("link", name="Quality", exact=True).click()
    page.get_by_role("button", name="Measure the search").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible(timeout=20_000)
    expect(page.get_by_role("row", name="fused smoothed")).to_contain_text("1.000")
    page.get_by_role("button", name="Delete").click()
    page.get_by_text("Measure with a query set").click()
    page.get_by_label("Its collection").select_option("rag-documents")
    for label, text in (("queries.jsonl", '{"_id": "1", "text": "When?"}'), ("qrels/test.tsv", "1\tnobody\tyes")):
        file = {"name": label.rpartition("/")[2], "mimeType": "text/plain", "buffer": text.encode()}
        page.get_by_label(label).set_input_files(file)
    page.get_by_role("button", name="Measure with these").click()
    expect(page.get_by_role("alert")).to_contain_text("qrels/test.tsv:1: is not a query's id")
    admin_tab.complaints.clear()  # the browser says that this form was refused
    page.get_by_role("link", name="Quality", exact=True).click()
    page.get_by_role("button", name="remove").click()
    expect(page.get_by_text("Nothing has been judged yet.")).to_be_visible()
