"""The latest changes of a collection: a part of its page."""

from __future__ import annotations

import re

import pytest

from tests.interfaces.console.conftest import ADMIN

HEADING = "The latest changes"


@pytest.fixture(scope="module")
def changed(app):
    """A collection in which documents were changed at different times, and one that does not know when."""
    client = app.test_client()
    times = ["2026-03-01T10:00:00Z", "2026-01-01T10:00:00Z", "2026-02-01T10:00:00Z", None, 7, "<b>", *["2025"] * 3]
    documents = [
        {
            "id": f"d{n}",
            "text": "text",
            "metadata": {"title": f"Title {n}"} | ({} if time is None else {"updated_at": time}),
            "embedding": [1.0],
        }
        for n, time in enumerate(times)
    ]
    documents[2]["metadata"] |= {"document_id": "of two"}
    for name, sent in (("changed", documents), ("timeless", documents[3:5])):
        assert client.post("/collections", json={"name": name}, headers=ADMIN).status_code == 201
        path = f"/collections/{name}/documents"
        assert client.post(path, json={"documents": sent}, headers=ADMIN).status_code in (201, 202)
    return "changed"


def test_the_newest_come_first_with_their_time_and_lead_to_the_whole_list(admin, changed):
    page = admin.get(f"/collections/{changed}").text
    section = page.partition(HEADING)[2].partition("</section>")[0]
    assert re.findall(r">(Title \d)<", section) == ["Title 5", "Title 0", "Title 2", "Title 1", "Title 6"]
    assert "2026-03-01 10:00 UTC" in section
    assert "&lt;b&gt;" in section
    assert f"/console/collections/{changed}/document?id=d0" in section
    assert f"/console/documents/of/{changed}?id=of+two" in section
    everything = admin.read(f"/collections/{changed}", order_by="-updated_at").text
    assert everything.index("Title 0") < everything.index("Title 2") < everything.index("Title 1")


def test_they_stand_above_the_first_page_of_a_collection_that_knows_them_alone(admin, changed):
    assert HEADING not in admin.read("/collections/timeless").text
    for query in ({"where": '{"title": "Title 0"}'}, {"order_by": "title"}):
        assert HEADING not in admin.read(f"/collections/{changed}", **query).text


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_a_time_that_is_out_of_all_years_in_utc_is_shown_as_it_is(app, admin, time):
    client = app.test_client()
    name = f"far-{time[:4]}"
    assert client.post("/collections", json={"name": name}, headers=ADMIN).status_code == 201
    sent = {"documents": [{"id": "far", "text": "text", "metadata": {"updated_at": time}, "embedding": [1.0]}]}
    assert client.post(f"/collections/{name}/documents", json=sent, headers=ADMIN).status_code in (201, 202)
    assert time in admin.read(f"/collections/{name}").text
