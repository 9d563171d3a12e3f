"""Commands reach collections of every database by their full names, and all of them where they mean all."""

import json
import uuid

import pytest

DOCUMENTS = [{"id": f"d{n}", "text": f"text {n}", "embedding": [1.0, float(n)]} for n in range(12)]


@pytest.fixture
def tenant(live, session):
    """A tenant with one database."""
    name = f"t{uuid.uuid4().hex[:10]}"
    assert session.post(f"{live.url}/api/v2/tenants", json={"name": name}).status_code == 200
    assert session.post(f"{live.url}/api/v2/tenants/{name}/databases", json={"name": "main"}).status_code == 200
    yield name
    session.delete(f"{live.url}/api/v2/tenants/{name}/databases/main")


@pytest.fixture
def place(live, session, tenant):
    """The URL of a collection `library` there, with a `?database=` that goes behind it."""
    where = f"?database={tenant}/main"
    made = session.post(f"{live.url}/collections{where}", json={"name": "library", "metadata": {"a": 1}})
    assert made.status_code == 201
    url = f"{live.url}/collections/library"
    assert session.post(f"{url}/documents{where}", json={"documents": DOCUMENTS}).status_code == 201
    return url, where


def test_an_export_of_everything_has_all_databases_and_comes_back(run_live, live, session, tenant, place, tmp_path):
    (url, where), full = place, f"/{tenant}/main/library"
    missing = run_live("export", tmp_path / "none", "--collection", f"/{tenant}/other/library")
    assert (missing.returncode, "Database [other] not found" in missing.stderr) == (2, True)
    exported = run_live("export", tmp_path / "out")
    assert (exported.returncode, exported.stderr) == (0, "")
    entries = json.loads((tmp_path / "out" / "manifest.json").read_text())["collections"]
    (entry,) = [each for each in entries if each["name"] == full]
    assert (entry["file"], entry["count"]) == (f"{tenant}+main+library.ndjson", len(DOCUMENTS))
    assert {each["name"] for each in session.get(f"{live.url}/collections").json()["collections"]} < {
        each["name"] for each in entries
    }
    content = session.get(f"{url}/export{where}").content

    session.delete(f"{live.url}/api/v2/tenants/{tenant}/databases/main")
    assert session.get(f"{url}{where}").json()["code"] == "database_not_found"
    imported = run_live("import", tmp_path / "out", "--collection", full)
    assert (imported.returncode, imported.stderr) == (0, "")
    assert imported.stdout == f"{full}: {len(DOCUMENTS)} created, 0 updated, 0 unchanged\n"
    assert session.get(f"{url}/export{where}").content == content
    assert session.get(f"{url}{where}").json()["metadata"] == {"a": 1}
    assert session.get(url).status_code == 404


def test_indexes_of_all_databases_are_checked_and_rebuilt(run_live, session, tenant, place):
    (url, where), full = place, f"/{tenant}/main/library"
    checked = run_live("check", full)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert f"{full}: {len(DOCUMENTS)} documents" in checked.stdout
    assert f"{full}: {len(DOCUMENTS)} documents" in run_live("check").stdout
    rebuilt = run_live("rebuild", full)
    assert (rebuilt.returncode, rebuilt.stdout) == (0, f"{full}: rebuilt, {len(DOCUMENTS)} documents\n")
    assert session.get(f"{url}/index{where}").json()["rebuilds"] == 1


def test_collections_of_a_database_are_listed(run_live, tenant, place):
    listed = run_live("collections", "--database", f"{tenant}/main", "--json")
    assert [each["name"] for each in json.loads(listed.stdout)["collections"]] == ["library"]
    assert "library" in run_live("collections", "--database", f"{tenant}/main").stdout
    refused = run_live("collections", "--database", f"{tenant}/other")
    assert refused.returncode == 2
    assert "Database [other] not found" in refused.stderr
