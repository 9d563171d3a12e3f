"""From the first document to the first answer."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.support.model_server import as_events

POEM = "# Otters\n\nAn otter holds hands with its mate while both are asleep on the water.\n"


def test_a_file_is_dropped_found_and_answered_from(admin_tab, models, tmp_path):
    file = tmp_path / "otters.md"
    file.write_text(POEM)
    page = admin_tab.open("/documents")
    page.get_by_label("Files", exact=True).set_input_files(file)
    expect(page.locator("#uploads")).to_contain_text("done")
    expect(page.locator("#uploads tbody tr")).to_have_text(re.compile(r"otters\.md\s*done"))

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
    page.locator("#chat").get_by_role("link", name="[1]").click()
    expect(page).to_have_url(re.compile("#source-1$"))
    page.locator("#source-1").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Otters")
