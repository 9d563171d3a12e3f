"""The page of a collection: which fields it counts the values of, and its latest changes; its map as it is without
scripts: a picture, and a table of the values that colour it."""

import io
import re

import pytest

from interfaces.console.pages.collection import DRAWN, drawn
from tests.interfaces.console.conftest import ADMIN, Reader, store_documents
from tests.support.live import eventually

HEADING = "The latest changes"


def documents_of(metadatas):
    return [{"id": f"d{n}", "text": "text", "metadata": each, "embedding": [1]} for n, each in enumerate(metadatas)]


@pytest.fixture
def store(app):
    """`store(name, metadatas)` makes a collection of documents with these metadata."""
    return lambda name, metadatas: store_documents(app, name, documents_of(metadatas))


@pytest.fixture
def counted(admin, store):
    """`counted(name, metadatas, **query)`: the fields of the first document that the page of such a collection counts."""

    def counted(name, metadatas, **query):
        store(name, metadatas)
        page = admin.get(f"/collections/{name}", **query).text
        return [field for field in metadatas[0] if f'<h2 class="h6">{field} <span' in page]

    return counted


def test_the_fields_that_are_counted_are_those_that_tell_documents_apart(admin, counted):
    # Names of documents and what all have are not counted.
    rows = [{"number": n, "kind": "report" if n else "letter", "tags": ["a", f"b{n > 1}"], "a": 1} for n in range(3)]
    assert counted("named", rows) == ["kind", "tags"]
    # Lists that share a value are, though no two are alike.
    assert counted("sharing", [{"tags": ["all", f"of {n}"], "names": [f"a{n}", f"a{n}"]} for n in range(3)]) == ["tags"]
    # What no query string and no filter can name is left out.
    rows = [{" kind": "a", "kind ": "a", "$kind": "a", "a,b": "a", "kind": f"{n > 1}"} for n in range(3)]
    assert counted("unnamed", rows) == ["kind"]
    for asked in (" kind ", "kind,other"):
        assert '<h2 class="h6">kind <span' in admin.get("/collections/unnamed", facet=asked).text
    # What all documents of a page have is counted where others have another value, and what is asked for always.
    assert counted("paged", [{"kind": "letter" if n > 1 else "report"} for n in range(3)], limit=2) == ["kind"]
    assert counted("asked", [{"number": n, "kind": "report"} for n in range(3)], facet="number") == ["number"]


def test_each_value_leads_to_as_many_documents_as_were_counted(admin, counted):
    rows = [{"tags": ["a", "b"]}, {"tags": ["a"]}, {"tags": "a"}, {"tags": 1}, {"tags": [1.0, True]}, {"tags": ""}]
    assert counted("leading", rows, facet="tags") == ["tags"]
    page = admin.get("/collections/leading", facet="tags").text.partition("Values of fields")[2]
    found = re.findall(r'<a href="/console(/collections/leading[^"]+)">([^<]+)</a> <span[^>]*>(\d)<', page)
    expected = {("a", "3"), ("b", "1"), ("1", "2"), ("true", "1"), ("(empty)", "1")}
    assert {(value, number) for _, value, number in found} == expected
    for path, value, number in found:
        text = Reader(admin.client.get(f"/console{path.replace('&amp;', '&')}").text).text
        assert f"{number} document{'' if number == '1' else 's'} that match" in text, (value, text)
        assert f"tags has {'' if value == '(empty)' else value}" in text


def test_of_a_long_value_the_beginning_is_shown_and_each_link_can_be_followed_whatever_its_signs(admin, counted):
    values = [letter * length for length in (1_000, 30_000) for letter in "aé"]
    counted("long-values", [{"kind": value} for value in values for _ in range(2)])
    page = Reader(admin.get("/collections/long-values").text)
    assert {f"{letter * 200}…" for letter in "aé"} <= set(page.text.split())
    assert not any(letter * 201 in page.text for letter in "aé")
    links = [each["href"] for each in page.all("a") if "only=" in each.get("href", "")]
    assert len(links) == 2
    for link in links:
        answer = admin.client.get(link)
        assert answer.status_code == 200
        assert "2 documents that match" in Reader(answer.text).text


def test_values_beside_passages_are_left_out_where_the_reasons_are_shown(admin, client):
    """To count them takes as long as the search."""
    about = {"doc_type": "ops", "last_update_date": "2026-01-31"}
    rules = [
        {"filename": f"{source}.md", "content": f"The door of {source} opens.", "metadata": {"source": source, **about}}
        for source in ("handbook", "wiki")
    ]
    body = {"documents": rules, "collection": "beside"}
    assert client.post("/api/rag/documents:batch", json=body).status_code == 200
    pages = [admin.get("/ask", q="door", collection="beside", **more).text for more in ({}, {"why": "1"})]
    assert ['aria-label="Narrow by"' in page for page in pages] == [True, False]


def test_the_newest_changes_come_first_and_alone_above_a_page_that_knows_them(admin, store):
    times = ["2026-03-01T10:00:00Z", "2026-01-01T10:00:00Z", "2026-02-01T10:00:00Z", None, 7, "<b>", *["2025"] * 3]
    rows = [{"title": f"Title {n}"} | ({} if time is None else {"updated_at": time}) for n, time in enumerate(times)]
    rows[2]["document_id"] = "of two"
    store("changed", rows)
    store("timeless", rows[3:5])
    page = admin.get("/collections/changed").text
    section = page.partition(HEADING)[2].partition("</section>")[0]
    assert re.findall(r">(Title \d)<", section) == ["Title 5", "Title 0", "Title 2", "Title 1", "Title 6"]
    assert "2026-03-01 10:00 UTC" in section
    assert "&lt;b&gt;" in section
    assert "/console/collections/changed/document?id=d0" in section
    assert "/console/documents/of/changed?id=of+two" in section
    everything = admin.read("/collections/changed", order_by="-updated_at").text
    assert everything.index("Title 0") < everything.index("Title 2") < everything.index("Title 1")
    assert HEADING not in admin.read("/collections/timeless").text
    for query in ({"where": '{"title": "Title 0"}'}, {"order_by": "title"}):
        assert HEADING not in admin.read("/collections/changed", **query).text


def test_an_edit_keeps_what_the_form_does_not_show_and_never_takes_back_what_changed_meanwhile(
    app, admin, client, store, monkeypatch
):
    store("edited", [{"n": 0}, {"n": 1}])
    documents, page = "/collections/edited/documents", {"id": "d0"}

    def change(which, body):
        assert client.patch(f"{documents}/{which}", json=body, headers=ADMIN).status_code in (200, 202)

    def save(seen, text="Mine & yours", metadata='{"n": 2}'):
        fields = {"do": "save", "seen": seen, "text": text, "metadata": metadata}
        return admin.post("/collections/edited/document", token=token, query=page, **fields)

    def seen_on(answer):
        return re.search('name="seen" value="([^"]+)"', answer.text)[1]

    shown = admin.get("/collections/edited/document", **page)
    token = re.search('name="form_token" value="([^"]+)"', shown.text)[1]
    change("d0", {"uri": "https://example.org/d0"})
    service = app.extensions["rag.service"].store
    add = service.add_documents

    def after_another_change(*given, **more):
        monkeypatch.undo()
        change("d1", {"metadata": {"n": 9}})
        return add(*given, **more)

    monkeypatch.setattr(service, "add_documents", after_another_change)
    assert save(seen_on(shown)).status_code == 303
    told = client.get(f"{documents}/d0", headers=ADMIN).json
    assert (told["text"], told["metadata"], told["uri"]) == ("Mine & yours", {"n": 2}, "https://example.org/d0")
    assert client.get(f"{documents}/d1", headers=ADMIN).json["metadata"] == {"n": 9}
    wrong = save(seen_on(shown), metadata="{")
    assert (wrong.status_code, "metadata is not JSON" in wrong.text, "Mine &amp; yours" in wrong.text) == (
        400,
        True,
        True,
    )
    refused = save(seen_on(shown))
    assert (refused.status_code, "has changed since you opened it" in refused.text) == (409, True)
    change("d0", {"text": "Theirs"})
    refused = save(seen_on(wrong))
    assert (refused.status_code, "Theirs" in refused.text, "Mine &amp; yours" in refused.text) == (409, True, True)
    assert save(seen_on(refused)).status_code == 303
    assert client.get(f"{documents}/d0", headers=ADMIN).json["text"] == "Mine & yours"


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_a_time_that_is_out_of_all_years_in_utc_is_shown_as_it_is(admin, store, time):
    store(f"far-{time[:4]}", [{"updated_at": time}])
    assert time in admin.read(f"/collections/far-{time[:4]}").text


@pytest.fixture(scope="module")
def name(app):
    kinds = [{"kind": "pdf" if n % 3 else "<md>", "page": n, "tags": ["x", "y"] if n % 2 else []} for n in range(12)]
    documents = [
        {"id": f"d{n}", "text": f"text {n}", "metadata": metadata, "embedding": [n % 5, n % 7, 1]}
        for n, metadata in enumerate(kinds)
    ]
    store_documents(app, "mapped", documents)
    return "mapped"


@pytest.fixture
def shown(admin, name):
    """`shown(**query)`: the page of the map."""
    return lambda **query: admin.read(f"/collections/{name}/map", **query)


def legend(page):
    return [attributes.get("hidden", False) is not None for attributes in page.all("tr") if "data-group" in attributes]


def test_values_colour_the_points_and_lead_to_their_documents(shown, name, admin):
    page = shown()
    assert len(page.all("use")) == 12
    # Shapes tell apart what colours do not.
    used = {(each["class"], each["href"]) for each in page.all("use")}
    assert used == {("value-0", "#shape-0"), ("value-1", "#shape-1")}
    assert legend(page) == [True, True, False, False]
    [picture] = [each for each in page.all("svg") if each.get("role") == "img"]
    assert picture["aria-label"] == f"{name} as points, coloured by kind"
    links = [each["href"] for each in page.all("a") if "field=kind" in each["href"]]
    assert len(links) == 2
    assert "4 documents that match" in admin.client.get(links[1]).text


def test_numbers_colour_by_steps_lists_lead_to_what_they_contain_and_a_filter_narrows_the_map(shown, admin):
    page = shown(field="page")
    assert {each["class"] for each in page.all("use")} == {f"step-{n}" for n in range(8)}
    assert "0 – 1.375" in page.text
    page = shown(field="tags")
    assert "without tags" in page.text
    [link] = [each["href"] for each in page.all("a") if "field=tags" in each["href"]]
    assert "6 documents that match" in admin.client.get(link).text
    page = shown(where='{"page": {"$lt": 3}}', field="")
    assert len(page.all("use")) == 3
    assert "all documents" in page.text
    assert "without the filter" in page.text


def test_nothing_to_show_is_said(shown, admin, client):
    assert "No document matches this filter." in shown(where='{"page": -1}').text
    assert client.post("/collections", json={"name": "nothing-mapped"}).status_code == 201
    assert "This collection is empty." in admin.read("/collections/nothing-mapped/map").text
    assert admin.get("/collections/nobody/map").status_code == 404


def _projection(values, **others):
    count = len(values)
    points = {"ids": [f"{n}" for n in range(count)], "x": [0.5] * count, "y": [0.25] * count, "value": values}
    return {"points": points, "field": "f", **others}


def test_numbers_of_few_are_groups_rare_values_are_one_and_a_picture_of_many_points_has_some_of_each_part():
    found = drawn(_projection([2021, 2020, 2021, None], scale="numbers"))
    groups = [(each["title"], each["count"]) for each in found["groups"]]
    assert groups == [("2020", 1), ("2021", 2), ("other values", 0), ("without f", 1)]
    assert found["digits"] == "1013"
    assert [place for _, _, place in found["points"]] == [1, 0, 1, 3]
    categories = [{"value": f"v{n}", "count": 1} for n in range(12)]
    found = drawn(_projection([*range(12), -1], scale="categories", categories=categories))
    assert [each["count"] for each in found["groups"]] == [*[1] * 10, 3, 0]
    found = drawn(_projection(list(range(5 * DRAWN + 1)), scale="numbers"))
    assert len(found["points"]) == DRAWN
    assert {place for _, _, place in found["points"]} == set(range(8))


def test_the_page_of_a_job_tells_of_files_that_nothing_was_read_of(admin, client):
    files = {"file": (io.BytesIO(b"%PDF-1.7 nothing"), "broken.pdf")}
    job_id = client.post("/api/documents", data=files).json["job"]["id"]
    for _ in range(2):
        page = admin.read(f"/documents/jobs/{job_id}")
        assert "broken.pdf" in page.text
        eventually(lambda: client.get(f"/api/jobs/{job_id}").json["finished_at"])
