"""The table of access says truly where each route's requests name their collection."""

import pytest

from schemas.access.table import ROUTES, Names
from wrapper.web.route_table import _CONVERTED, NAME_ALONE

IN_BODY = {
    Names.BODY: {"collection"},
    Names.BODY_NAME: {"name"},
    Names.CHOSEN: {"collections", "collection"},
    Names.ENTRIES: {"selectedCollections"},
    Names.DEFAULT: {"collection"},
}
IN_QUERY = {
    Names.QUERY: {"collection"},
    Names.QUERY_CHOSEN: {"collections", "collection"},
    Names.UPLOADED: {"collection"},
}
NAMING = {"collection", "collections", "selectedCollections"}
ABOUT_SOMETHING_ELSE = {
    "POST /collections/{name}/query",  # its body is that of /query
    "PUT /api/watchers/{name}",  # what a folder is loaded into, as it was reported
    "GET /aliases",  # whose aliases are listed
    "POST /api/keys",
    "PATCH /api/keys/{key_id}",
    "GET /api/audit",
    "GET /api/judgements",
}
"""Routes with a field of such a name that is not the collection the request is about."""


@pytest.fixture(scope="module")
def declared(app):
    table = app.extensions["rag.routes"]
    return {
        f"{method} {_CONVERTED.sub(NAME_ALONE, rule.rule)}": table.find(rule.endpoint)
        for rule in app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }


def test_a_collection_is_named_where_the_table_says(declared):
    faults = []
    for route, row in ROUTES.items():
        names, in_path = row.names, " /collections/{name}" in route or "{vector_store_id}" in route
        in_body, in_query = set(declared[route].body_names.known), set(declared[route].query_names.known)
        is_missing = not in_body >= IN_BODY.get(names, set()) or not in_query >= IN_QUERY.get(names, set())
        unsaid = (set() if names in IN_BODY else in_body & NAMING) | (set() if names in IN_QUERY else in_query & NAMING)
        if is_missing or (unsaid and route not in ABOUT_SOMETHING_ELSE) or in_path != (names is Names.PATH):
            faults.append((route, names, in_body & NAMING, in_query & NAMING))
    assert faults == []
    assert len(ROUTES) > 150
