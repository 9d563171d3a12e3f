"""The map of a collection as it is without scripts: a picture, and a table of the values that colour it."""

import pytest

from interfaces.console.maps import DRAWN, Map
from tests.interfaces.console.conftest import ADMIN


@pytest.fixture(scope="module")
def name(app):
    client, name = app.test_client(), "mapped"
    assert client.post("/collections", json={"name": name}, headers=ADMIN).status_code == 201
    kinds = [{"kind": "pdf" if n % 3 else "<md>", "page": n, "tags": ["x", "y"] if n % 2 else []} for n in range(12)]
    documents = [
        {"id": f"d{n}", "text": f"text {n}", "metadata": metadata, "embedding": [n % 5, n % 7, 1]}
        for n, metadata in enumerate(kinds)
    ]
    stored = client.post(f"/collections/{name}/documents", json={"documents": documents}, headers=ADMIN)
    assert stored.status_code in (201, 202)
    return name


@pytest.fixture
def shown(admin, name):
    """`shown(**query)`: the page of the map."""

    def show(**query):
        return admin.read(f"/collections/{name}/map", **query)

    return show


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


def test_a_number_of_few_is_a_group_of_its_own_and_rare_values_are_one():
    found = Map.of(_projection([2021, 2020, 2021, None], scale="numbers"))
    groups = [(each.title, each.count) for each in found.groups]
    assert groups == [("2020", 1), ("2021", 2), ("other values", 0), ("without f", 1)]
    assert found.bounds == (2020, 2021)
    assert [place for _, _, place in found.points] == [1, 0, 1, 3]
    categories = [{"value": f"v{n}", "count": 1} for n in range(12)]
    found = Map.of(_projection([*range(12), -1], scale="categories", categories=categories))
    assert [each.count for each in found.groups] == [*[1] * 10, 3, 0]


def test_a_picture_of_many_points_has_some_of_each_part():
    found = Map.of(_projection(list(range(5 * DRAWN + 1)), scale="numbers"))
    assert len(found.points) == DRAWN
    assert {place for _, _, place in found.points} == set(range(8))
