"""The form that changes a key: filled in with what the key may do, and shown again with what is wrong."""

import pytest

EVERYTHING = {
    "name": "Ana <b>",
    "scopes": ["read"],
    "collections": ["handbook", "team-*"],
    "where": {"public": True},
    "expires_at": "2999-01-31T00:00:00.000Z",
    "limits": {"requests_per_second": 0.001, "burst": 5, "documents": 2**53},
}

NARROWER = {"where": {"public": True}, "limits": {"concurrent": 1}, "expires_at": "2999-01-31T00:00:00.000Z"}


def inputs(page):
    """Return what the form would send if nobody changed it."""
    fields = {
        each["name"]: each.get("value", "")
        for each in page.all("input")
        if each.get("name", "form_token") != "form_token" and each.get("type") != "checkbox"
    }
    return fields | {"scope": [each["value"] for each in page.all("input") if "checked" in each]}


def save(admin, key, **fields):
    path = f"/service/keys/{key['id']}"
    return admin.post(path, do="save", **(inputs(admin.read(path)) | fields))


def told(client, key):
    return client.get(f"/api/keys/{key['id']}").json


def test_a_form_that_nobody_changed_changes_nothing(admin, client, new_key):
    for wanted in (EVERYTHING, {}, {"limits": {"requests_per_second": 0.0012345678901234567}}):
        key = new_key(**wanted)
        before = told(client, key)
        assert save(admin, key).status_code == 303
        assert told(client, key) == before


def test_everything_can_be_changed_and_taken_away(admin, client, new_key):
    key = new_key()
    given = {"name": "Ben", "scope": ["write", "chat"], "collections": " notes , b-* ", "chats_per_day": "7"}
    answer = save(admin, key, **given, expires_at="2999-01-31")
    assert (answer.status_code, answer.location) == (303, f"/console/service/keys/{key['id']}?saved=1")
    after = told(client, key)
    assert (after["name"], after["scopes"], after["collections"]) == ("Ben", ["write", "chat"], ["notes", "b-*"])
    assert (after["limits"], after["expires_at"]) == ({"chats_per_day": 7}, "2999-01-31T00:00:00.000Z")
    nothing = {"collections": "", "where": "", "expires_at": "", "chats_per_day": ""}
    assert save(admin, key, **nothing).status_code == 303
    after = told(client, key)
    assert (after["collections"], after["where"], after["limits"], after["expires_at"]) == (None, None, {}, None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, "name"),
        ({"scope": []}, "scopes"),
        ({"scope": ["write"], "where": '{"a": 1}'}, "filter"),
        ({"where": "[1]"}, "where"),
        ({"where": "{}"}, "must leave something out"),
        ({"collections": "*a"}, "Collection name"),
        ({"burst": "5"}, "requests_per_second"),
        ({"documents": "many"}, "limits.documents"),
        ({"expires_at": "2999-02-31"}, "2999-02-31"),
        ({"expires_at": "2001-01-01"}, "expires_at"),
    ],
)
def test_what_is_wrong_is_said_above_what_was_filled_in(admin, client, new_key, change, words):
    key = new_key(expires_at="2999-01-31T00:00:00Z")
    before = told(client, key)
    answer = save(admin, key, **({"name": "Changed"} | change))
    assert answer.status_code == 400
    assert words in answer.text.partition('role="alert"')[2].partition("</p>")[0]
    name, value = ("name", "Changed") if "scope" in change and len(change) == 1 else list(change.items())[-1]
    assert f'name="{name}" value="{value.replace(chr(34), "&#34;")}"' in answer.text
    assert told(client, key) == before


def test_a_form_that_was_filled_in_before_a_key_changed_takes_nothing_back(admin, client, new_key):
    key = new_key()
    path = f"/service/keys/{key['id']}"
    before = inputs(admin.read(path))
    assert client.patch(f"/api/keys/{key['id']}", json=NARROWER).status_code == 200
    now = told(client, key)
    for form in (before, {name: value for name, value in before.items() if name != "seen"}):
        answer = admin.post(path, do="save", **(form | {"name": "Renamed"}))
        assert answer.status_code == 409
        assert "has changed since you opened it" in answer.text
        assert 'name="concurrent" value="1"' in answer.text
        assert told(client, key) == now


def test_a_form_takes_nothing_back_that_is_changed_at_the_same_moment(app, admin, client, new_key, monkeypatch):
    key = new_key()
    stored = app.extensions["rag.access"].stored
    change = stored.change

    def after_another_change(*given, **options):
        monkeypatch.undo()
        assert client.patch(f"/api/keys/{key['id']}", json=NARROWER).status_code == 200
        return change(*given, **options)

    monkeypatch.setattr(stored, "change", after_another_change)
    assert save(admin, key, name="Renamed", collections="handbook").status_code == 303
    now = told(client, key)
    assert (now["name"], now["collections"]) == ("Renamed", ["handbook"])
    assert now.items() >= NARROWER.items()


def test_the_form_of_a_key_that_was_revoked_meanwhile_is_refused(admin, client, new_key):
    key = new_key()
    path = f"/service/keys/{key['id']}"
    before = inputs(admin.read(path))
    token = admin.token(path)
    assert client.delete(f"/api/keys/{key['id']}").status_code == 200
    answer = admin.post(path, token=token, do="save", **(before | {"name": "Renamed"}))
    assert answer.status_code == 409
    assert "was revoked, and nothing was saved" in answer.text
    assert told(client, key)["name"] == key["name"]
    page = admin.read(path, saved="1")
    assert "The key is changed" not in page.text
    assert not [each for each in page.all("button") if each.get("value") == "save"]


def test_only_the_button_that_revokes_does_and_a_key_is_made_for_a_span_of_days(admin, client, new_key):
    key = new_key()
    path = f"/service/keys/{key['id']}"
    for said in ({}, {"do": "Save"}):
        assert admin.post(path, **said).status_code == 400
        assert told(client, key)["revoked_at"] is None
    assert admin.post(path, do="revoke").status_code == 303
    assert told(client, key)["revoked_at"] is not None
    assert admin.post("/service/keys", name="for a month", scope="read", expires_at="30d").status_code == 200
    [made] = [each for each in client.get("/api/keys").json["keys"] if each["name"] == "for a month"]
    assert made["expires_at"] > made["created_at"]


def test_only_administrators_change_keys_and_those_that_are_there(signed_in, new_key, admin):
    key = new_key()
    manager = signed_in(scopes=["manage"])
    path = f"/service/keys/{key['id']}"
    assert manager.get(path).status_code == 403
    assert manager.post(path, of="/ask", do="save", name="Mine", scope="admin").status_code == 403
    assert manager.post(path, of="/ask", do="revoke").status_code == 403
    assert admin.get("/service/keys/nobody00").status_code == 404
    assert admin.post("/service/keys/nobody00", of="/ask", do="save", name="x", scope="read").status_code == 404
