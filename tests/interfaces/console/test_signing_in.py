import pytest
from flask.testing import FlaskClient

from interfaces.console.front_doors import cookie_name
from interfaces.console.sessions import MOST_SESSIONS, SESSION_SECONDS, Sessions
from tests.interfaces.console.conftest import ADMIN_KEY, Reader, Visitor

PAGES = ("/ask", "/collections", "/collections/handbook", "/collections/handbook/map", "/documents")


@pytest.mark.parametrize("page", PAGES)
def test_without_a_key_a_page_leads_to_the_sign_in_and_back(anybody, page):
    answer = anybody.get(page, q="x")
    assert answer.status_code == 303
    assert answer.location.startswith("/console/sign-in?next=")
    [field] = [each for each in Reader(anybody.client.get(answer.location).text).all("input") if each["name"] == "next"]
    signed_in = anybody.post("/sign-in", key=ADMIN_KEY, next=field["value"])
    assert (signed_in.status_code, signed_in.location) == (303, f"/console{page}?q=x")


def test_signing_in_leads_nowhere_else_and_browsers_find_a_mark(anybody):
    for elsewhere in (
        "//evil.example/",
        "https://evil.example/",
        "/\\evil.example",
        "javascript:alert(1)",
        "/a\nb",
        "x",
    ):
        assert anybody.post("/sign-in", key=ADMIN_KEY, next=elsewhere).location == "/console/", elsewhere
    answer = anybody.client.get("/favicon.ico")
    assert (answer.status_code, answer.mimetype) == (200, "image/svg+xml")


def test_a_browser_is_shown_the_console_and_a_program_the_service(app):
    client = FlaskClient(app, app.response_class)
    browser = client.get("/", headers={"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"})
    assert (browser.status_code, browser.location, browser.headers["Vary"]) == (303, "/console/", "Accept")
    for accept in ("*/*", "application/json", "application/json, text/html"):
        assert client.get("/", headers={"Accept": accept}).status_code == 401
    with_key = client.get("/", headers={"Accept": "text/html", "Authorization": f"Bearer {ADMIN_KEY}"})
    assert with_key.json["service"] == "rag-wrapper"


def test_the_cookie_is_for_this_site_alone_and_no_script_and_of_one_service_and_session(anybody):
    cookie = anybody.sign_in(ADMIN_KEY).headers["Set-Cookie"]
    assert cookie.startswith("rag-console")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={SESSION_SECONDS:.0f}"} <= set(cookie.split("; "))
    over_tls = FlaskClient(anybody.client.application).get("/console/sign-in", base_url="https://localhost")
    cookie = over_tls.headers["Set-Cookie"]
    assert cookie.startswith("__Host-rag-console")
    assert "Secure" in cookie.split("; ")
    names = {cookie_name({"HTTP_HOST": host}) for host in ("127.0.0.1:5006", "127.0.0.1:5007", "localhost")}
    assert len(names) == 3
    anybody.get("/sign-in")
    before = {each.value for each in anybody.client._cookies.values()}
    anybody.sign_in(ADMIN_KEY)
    assert before.isdisjoint(each.value for each in anybody.client._cookies.values())


def test_a_wrong_key_is_refused_and_not_shown_again(anybody, new_key):
    for key in ("nonsense<b>", new_key()["key"][:-1] + "x"):
        answer = anybody.post("/sign-in", key=key)
        assert answer.status_code == 401
        assert 'role="alert"' in answer.text
        assert key not in answer.text
    assert anybody.get("/ask").status_code == 303


def test_a_session_ends_with_its_key(app, client, new_key):
    key, visitor = new_key(), Visitor(app)
    visitor.sign_in(key["key"])
    assert visitor.get("/ask").status_code == 200
    assert client.delete(f"/api/keys/{key['id']}").status_code == 200
    app.extensions["rag.access"]._memory._checked_at = float("-inf")  # instead of waiting for a second
    answer = visitor.get("/ask")
    assert answer.status_code == 303
    assert "was revoked" in visitor.client.get(answer.location).text


def test_a_session_ends_after_its_time_and_with_one_too_many_the_oldest_of_the_same_key(app):
    now = [1_000.0]
    sessions = Sessions(app.extensions["rag.service"].catalog, clock=lambda: now[0])
    session = sessions.sign_in(ADMIN_KEY, "bootstrap")
    now[0] += SESSION_SECONDS - 1
    assert sessions.find(session.id).key == ADMIN_KEY
    now[0] += 1
    assert sessions.find(session.id).key is None
    other = sessions.sign_in(ADMIN_KEY, "bootstrap")
    with app.extensions["rag.service"].catalog.read() as transaction:
        rows = transaction.rows("SELECT digest FROM console_sessions WHERE ends_at_ms <= ?", (round(now[0] * 1e3),))
    assert rows == []
    sessions.sign_out(other)
    now = [1_000.0]
    sessions = Sessions(app.extensions["rag.service"].catalog, clock=lambda: now[0])
    other, mine = sessions.sign_in("another", "bob"), []
    for _ in range(MOST_SESSIONS + 2):
        now[0] += 1
        mine.append(sessions.sign_in("a key", "ana"))
    found = [sessions.find(each.id).key for each in mine]
    assert found == [None, None, *["a key"] * MOST_SESSIONS]
    assert sessions.find(other.id).key == "another"


def test_a_session_ends_with_its_sign_out_in_every_browser_and_neither_it_nor_its_key_is_in_the_database(app, admin):
    [cookie] = [each.value for each in admin.client._cookies.values()]
    with app.extensions["rag.service"].catalog.read() as transaction:
        stored = repr(transaction.rows("SELECT digest, sealed_key FROM console_sessions"))
    assert cookie not in stored
    assert ADMIN_KEY not in stored
    thief = admin.copied()
    assert thief.get("/ask").status_code == 200
    assert admin.post("/sign-out", of="/ask").status_code == 303
    assert thief.get("/ask").status_code == 303
    assert admin.get("/ask").status_code == 303


def test_a_form_of_another_session_does_nothing(app, admin, anybody):
    for token in ("", "x", "é", anybody.token()):
        answer = admin.post("/sign-out", token=token)
        assert answer.status_code == 400
        assert "no longer valid" in answer.text
    assert admin.get("/ask").status_code == 200


def test_the_cookie_counts_on_routes_only_with_the_token_of_its_pages(admin, anybody):
    token = admin.token("/ask")
    asked = admin.client.get
    assert asked("/collections").status_code == 401
    assert asked("/collections", headers={"X-Console-Token": anybody.token()}).status_code == 401
    assert asked("/collections", headers={"X-Console-Token": "é"}).status_code == 401
    assert asked("/collections", headers={"X-Console-Token": token}).status_code == 200
    assert anybody.client.get("/collections", headers={"X-Console-Token": token}).status_code == 401
    with_wrong_key = asked("/collections", headers={"X-Console-Token": token, "X-API-Key": "wrong"})
    assert with_wrong_key.status_code == 401


def test_pages_of_other_sites_are_refused_and_their_links_followed(admin, app):
    foreign = {"Origin": "https://evil.example"}
    answer = admin.client.post("/console/sign-out", data={"form_token": admin.token("/ask")}, headers=foreign)
    assert answer.status_code == 403
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    # Browsers leave the cookie out on the way from another site; the page asks again from here.
    answer = Visitor(app).client.get("/console/ask?q=x", headers=link)
    assert answer.status_code == 200
    assert 'http-equiv="refresh"' in answer.text
    assert Visitor(app).client.get("/console/ask", headers={"Host": "evil.example"}).status_code == 421


def test_a_key_sees_its_own_collections_alone_and_no_page_that_it_may_not_use(client, signed_in):
    for name in ("mine", "theirs"):
        assert client.post("/collections", json={"name": name}).status_code == 201
    reader = signed_in(collections=["mine"])
    assert "theirs" not in reader.read("/collections").text
    assert reader.get("/collections/theirs").status_code == 404
    assert "Bring documents" not in reader.read("/documents").text
    assert reader.get("/collections/mine/delete", where='{"a": 1}').status_code == 200
    refused = reader.post("/collections/mine/delete", of="/ask", where='{"a": 1}')
    assert refused.status_code == 403
    chatter = signed_in(scopes=["chat"])
    refused = chatter.get("/ask")
    assert refused.status_code == 403
    assert "/console/collections" not in refused.text
