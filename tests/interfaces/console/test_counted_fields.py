"""Which fields a collection's page counts the values of."""

from __future__ import annotations

import re

from tests.interfaces.console.conftest import ADMIN, Reader


def counted(app, admin, name, metadatas, **query):
    client = app.test_client()
    assert client.post("/collections", json={"name": name}, headers=ADMIN).status_code == 201
    documents = [
        {"id": f"d{n}", "text": "text", "metadata": metadata, "embedding": [1.0]}
        for n, metadata in enumerate(metadatas)
    ]
    sent = {"documents": documents}
    assert client.post(f"/collections/{name}/documents", json=sent, headers=ADMIN).status_code in (201, 202)
    page = admin.get(f"/collections/{name}", **query).text
    return [field for field in metadatas[0] if f'<h2 class="h6">{field} <span' in page]


def test_names_of_documents_and_what_all_have_are_not_counted(app, admin):
    rows = [{"number": n, "kind": "report" if n else "letter", "tags": ["a", f"b{n > 1}"], "a": 1} for n in range(3)]
    assert counted(app, admin, "named", rows) == ["kind", "tags"]


def test_lists_that_share_a_value_are_counted_though_no_two_are_alike(app, admin):
    rows = [{"tags": ["all", f"of {n}"], "names": [f"a{n}", f"a{n}"]} for n in range(3)]
    assert counted(app, admin, "sharing", rows) == ["tags"]


def test_a_field_that_no_query_string_and_no_filter_can_name_is_left_out(app, admin):
    rows = [{" kind": "a", "kind ": "a", "$kind": "a", "a,b": "a", "kind": f"{n > 1}"} for n in range(3)]
    assert counted(app, admin, "unnamed", rows) == ["kind"]
    for asked in (" kind ", "kind,other"):
        assert '<h2 class="h6">kind <span' in admin.get("/collections/unnamed", facet=asked).text


def test_what_all_documents_of_a_page_have_is_counted_where_others_have_another_value(app, admin):
    rows = [{"kind": "letter" if n > 1 else "report"} for n in range(3)]
    assert counted(app, admin, "paged", rows, limit=2) == ["kind"]


def test_a_field_that_is_asked_for_is_counted_whatever_it_holds(app, admin):
    rows = [{"number": n, "kind": "report"} for n in range(3)]
    assert counted(app, admin, "asked", rows, facet="number") == ["number"]


def test_each_value_leads_to_as_many_documents_as_were_counted(app, admin):
    rows = [{"tags": ["a", "b"]}, {"tags": ["a"]}, {"tags": "a"}, {"tags": 1}, {"tags": [1.0, True]}, {"tags": ""}]
    assert counted(app, admin, "leading", rows, facet="tags") == ["tags"]
    page = admin.get("/collections/leading", facet="tags").text.partition("Values of fields")[2]
    found = re.findall(r'<a href="/console(/collections/leading[^"]+)">([^<]+)</a> <span[^>]*>(\d)<', page)
    assert {(value, number) for _, value, number in found} == {
        ("a", "3"),
        ("b", "1"),
        ("1", "2"),
        ("true", "1"),
        ("(empty)", "1"),
    }
    for path, value, number in found:
        text = Reader(admin.client.get(f"/console{path.replace('&amp;', '&')}").text).text
        assert f"{number} document{'' if number == '1' else 's'} that match" in text, (value, text)
        assert f"tags has {'' if value == '(empty)' else value}" in text


def test_of_a_long_value_the_beginning_is_shown_and_each_link_can_be_followed(app, admin):
    values = [letter * length for length in (1_000, 30_000) for letter in "aé"]
    counted(app, admin, "long-values", [{"kind": value} for value in values for _ in range(2)])
    page = Reader(admin.get("/collections/long-values").text)
    assert {f"{letter * 200}…" for letter in "aé"} <= set(page.text.split())
    assert not any(letter * 201 in page.text for letter in "aé")
    links = [each["href"] for each in page.all("a") if "only=" in each.get("href", "")]
    assert len(links) == 2
    for link in links:
        answer = admin.client.get(link)
        assert answer.status_code == 200
        assert "2 documents that match" in Reader(answer.text).text


def test_links_of_values_whose_signs_grow_when_they_are_encoded_can_be_followed(app, admin):
    values = {"short": "a/" * 1_500, "slashes": "a/" * 5_500, "quotes": "'" * 11_000, "words": "a b" * 3_500}
    counted(app, admin, "growing", [{"kind": value} for value in values.values() for _ in range(2)])
    links = [each["href"] for each in admin.read("/collections/growing").all("a") if "only=" in each.get("href", "")]
    assert len(links) == 2
    for link in links:
        assert "2 documents that match" in Reader(admin.client.get(link).text).text


def test_values_beside_passages_are_left_out_where_the_reasons_are_shown(app, admin):
    """To count them takes as long as the search."""
    rules = [
        {
            "filename": f"{source}.md",
            "content": f"The door of {source} opens at nine.",
            "metadata": {"source": source, "doc_type": "ops", "last_update_date": "2026-01-31"},
        }
        for source in ("handbook", "wiki")
    ]
    body = {"documents": rules, "collection": "beside"}
    assert app.test_client().post("/api/rag/documents:batch", json=body, headers=ADMIN).status_code == 200
    pages = [admin.get("/ask", q="door", collection="beside", **more).text for more in ({}, {"why": "1"})]
    assert ['aria-label="Narrow by"' in page for page in pages] == [True, False]
