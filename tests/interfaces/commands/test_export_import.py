"""Export and import as a user runs them, against a real service: the imported collection equals the exported one.
Commands reach collections of every database by their full names, and all of them where they mean all."""

import hashlib
import json
import uuid

import numpy as np
import pytest


@pytest.fixture
def name(live, session):
    """A collection of 450 documents with another than the default metric."""
    name = f"carried-{uuid.uuid4().hex[:10]}"
    made = session.post(
        f"{live.url}/collections", json={"name": name, "metadata": {"embedding_model": "m", "a": [1]}, "metric": "l2"}
    )
    assert made.status_code == 201
    vectors = np.random.default_rng(5).normal(size=(450, 8)).astype("<f4").tolist()
    documents = [
        {
            "id": f"d{n}",
            "text": f"text\n{n}\u2028",
            "metadata": {"n": n, "list": [None, {"x": 0.1}]},
            "embedding": vectors[n],
        }
        for n in range(450)
    ]
    added = session.post(f"{live.url}/collections/{name}/documents", json={"documents": documents})
    assert added.status_code == 201
    return name


def _drop(live, session, name):
    assert session.delete(f"{live.url}/collections/{name}").status_code == 200


def test_what_is_imported_is_what_was_exported(run_live, live, session, name, tmp_path):
    exported = run_live("export", tmp_path / "out", "--collection", name)
    assert (exported.returncode, exported.stderr) == (0, "")
    (entry,) = json.loads((tmp_path / "out" / "manifest.json").read_text())["collections"]
    content = (tmp_path / "out" / f"{name}.ndjson").read_bytes()
    assert (entry["name"], entry["count"], entry["dimension"], entry["metric"]) == (name, 450, 8, "l2")
    assert (entry["sha256"], entry["embedding_model"]) == (hashlib.sha256(content).hexdigest(), "m")
    before = session.get(f"{live.url}/collections/{name}").json()

    _drop(live, session, name)
    imported = run_live("import", tmp_path / "out")
    assert (imported.returncode, imported.stderr) == (0, "")
    assert imported.stdout == f"{name}: 450 created, 0 updated, 0 unchanged\n"
    after = session.get(f"{live.url}/collections/{name}").json()
    assert {**after, "id": "", "revision": 0} == {**before, "id": "", "revision": 0}
    assert session.get(f"{live.url}/collections/{name}/export").content == content

    again = run_live("import", tmp_path / "out", "--collection", name)
    assert (again.returncode, again.stdout) == (0, f"{name}: 0 created, 0 updated, 450 unchanged\n")
    doomed = {"where": {"n": {"$gte": 200}}}
    assert session.delete(f"{live.url}/collections/{name}/documents", json=doomed).status_code == 200
    resumed = run_live("import", tmp_path / "out")
    assert (resumed.returncode, resumed.stdout) == (0, f"{name}: 250 created, 0 updated, 200 unchanged\n")
    more = [{"id": "more", "text": "", "embedding": [0.5] * 8}]
    assert session.post(f"{live.url}/collections/{name}/documents", json={"documents": more}).status_code == 201
    told = run_live("import", tmp_path / "out")
    assert told.returncode == 1
    assert told.stderr == f"{name}: 1 documents are there that the export does not have\n"


def test_what_does_not_fit_is_refused_before_anything_is_sent(run_live, live, session, name, tmp_path):
    assert run_live("export", tmp_path / "out", "--collection", name).returncode == 0
    url = f"{live.url}/collections/{name}"
    assert session.delete(f"{url}/documents", json={"ids": ["d0"]}).status_code == 200
    assert session.patch(f"{url}/metadata", json={"metadata": {"embedding_model": "newer"}}).status_code == 200
    refused = run_live("import", tmp_path / "out")
    assert (refused.returncode, "was embedded with 'newer', not with 'm'" in refused.stderr) == (2, True)
    assert session.get(url).json()["count"] == 449

    _drop(live, session, name)
    path = tmp_path / "out" / f"{name}.ndjson"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"text", b"TEXT", 1))
    refused = run_live("import", tmp_path / "out")
    assert (refused.returncode, "nothing was imported" in refused.stderr) == (2, True)
    path.unlink()
    assert run_live("import", tmp_path / "out").returncode == 2
    assert session.get(url).status_code == 404

    path.write_bytes(whole)
    assert session.post(f"{live.url}/collections", json={"name": name}).status_code == 201
    refused = run_live("import", tmp_path / "out")
    assert (refused.returncode, "metric cosine" in refused.stderr) == (2, True)
    assert session.get(url).json()["count"] == 0


def test_folders_that_are_in_use_or_no_export_are_refused(run_live, name, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    refused = run_live("export", tmp_path, "--collection", name)
    assert (refused.returncode, "new or an empty folder" in refused.stderr) == (2, True)
    assert run_live("import", tmp_path).returncode == 2
    assert run_live("export", tmp_path / "out", "--collection", "nobody").returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


OF_A_DATABASE = [{"id": f"d{n}", "text": f"text {n}", "embedding": [1.0, float(n)]} for n in range(12)]


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
    assert session.post(f"{url}/documents{where}", json={"documents": OF_A_DATABASE}).status_code == 201
    return url, where


def test_an_export_of_everything_has_all_databases_and_comes_back(run_live, live, session, tenant, place, tmp_path):
    (url, where), full = place, f"/{tenant}/main/library"
    missing = run_live("export", tmp_path / "none", "--collection", f"/{tenant}/other/library")
    assert (missing.returncode, "Database [other] not found" in missing.stderr) == (2, True)
    exported = run_live("export", tmp_path / "out")
    assert (exported.returncode, exported.stderr) == (0, "")
    entries = json.loads((tmp_path / "out" / "manifest.json").read_text())["collections"]
    (entry,) = [each for each in entries if each["name"] == full]
    assert (entry["file"], entry["count"]) == (f"{tenant}+main+library.ndjson", len(OF_A_DATABASE))
    assert {each["name"] for each in session.get(f"{live.url}/collections").json()["collections"]} < {
        each["name"] for each in entries
    }
    content = session.get(f"{url}/export{where}").content

    session.delete(f"{live.url}/api/v2/tenants/{tenant}/databases/main")
    assert session.get(f"{url}{where}").json()["code"] == "database_not_found"
    imported = run_live("import", tmp_path / "out", "--collection", full)
    assert (imported.returncode, imported.stderr) == (0, "")
    assert imported.stdout == f"{full}: {len(OF_A_DATABASE)} created, 0 updated, 0 unchanged\n"
    assert session.get(f"{url}/export{where}").content == content
    assert session.get(f"{url}{where}").json()["metadata"] == {"a": 1}
    assert session.get(url).status_code == 404


def test_indexes_of_all_databases_are_checked_and_rebuilt(run_live, session, tenant, place):
    (url, where), full = place, f"/{tenant}/main/library"
    checked = run_live("check", full)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert f"{full}: {len(OF_A_DATABASE)} documents" in checked.stdout
    assert f"{full}: {len(OF_A_DATABASE)} documents" in run_live("check").stdout
    rebuilt = run_live("rebuild", full, "--records", "full")
    assert (rebuilt.returncode, rebuilt.stderr) == (0, "")
    assert rebuilt.stdout == f"{full}: rebuilt, {len(OF_A_DATABASE)} documents\n"
    index = session.get(f"{url}/index{where}").json()
    assert (index["rebuilds"], index["rebuild"], index["state"], index["records"]) == (1, None, "ready", "full")


def test_collections_of_a_database_are_listed(run_live, tenant, place):
    listed = run_live("collections", "--database", f"{tenant}/main", "--json")
    assert [each["name"] for each in json.loads(listed.stdout)["collections"]] == ["library"]
    assert "library" in run_live("collections", "--database", f"{tenant}/main").stdout
    refused = run_live("collections", "--database", f"{tenant}/other")
    assert refused.returncode == 2
    assert "Database [other] not found" in refused.stderr
