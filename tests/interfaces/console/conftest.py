"""The console of a service that wants keys, asked as a browser would: with a cookie, and forms with their tokens."""

import re
from html.parser import HTMLParser

import pytest
from flask.testing import FlaskClient

from schemas.settings import RetrievalSettings
from tests.interfaces.access.conftest import app_with_keys
from tests.support.apps import models_of
from tests.support.model_server import model_server

ADMIN_KEY = "an-administrators-key-for-tests"
ADMIN = {"Authorization": f"Bearer {ADMIN_KEY}"}
_TOKEN = re.compile(r'name="form_token" value="([^"]+)"')


class Reader(HTMLParser):
    """What a browser makes of a page: its text, its elements with their attributes, and the text behind the tag of
    each."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.elements, self.texts = "", [], [""]
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.texts.append("")

    def handle_data(self, data):
        self.text += data
        self.texts[-1] += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


class Visitor:
    """Somebody at a browser without scripts, who reads each page to its end."""

    def __init__(self, app):
        self.client = FlaskClient(app, app.response_class)

    def get(self, path, **query):
        return self.client.get(f"/console{path}", query_string=query, headers={"Accept": "text/html"}, buffered=True)

    def read(self, path, **query):
        answer = self.get(path, **query)
        assert answer.status_code == 200, answer.text
        return Reader(answer.text)

    def token(self, path="/sign-in"):
        return _TOKEN.search(self.get(path).text)[1]

    def post(self, path, *, of=None, token=None, query=None, **fields):
        """Send a form of the page `of`, the page itself when left out."""
        fields["form_token"] = self.token(of or path) if token is None else token
        return self.client.post(f"/console{path}", data=fields, query_string=query, buffered=True)

    def sign_in(self, key):
        return self.post("/sign-in", key=key)

    def copied(self):
        """Return somebody who has got hold of the cookies."""
        other = Visitor(self.client.application)
        for each in self.client._cookies.values():
            other.client.set_cookie(each.key, each.value)
        return other


def store_documents(app, name, documents):
    """Make a collection of these documents."""
    client = app.test_client()
    assert client.post("/collections", json={"name": name}, headers=ADMIN).status_code == 201
    stored = client.post(f"/collections/{name}/documents", json={"documents": documents}, headers=ADMIN)
    assert stored.status_code in (201, 202), stored.json


def store_files(app, name, **texts):
    """Store Markdown files, by their names without the ending, in a collection that is made for them."""
    about = {"source": "handbook", "doc_type": "ops", "last_update_date": "2025-10-02"}
    rules = [{"filename": f"{each}.md", "content": text, "metadata": about} for each, text in texts.items()]
    sent = {"documents": rules, "collection": name}
    stored = app.test_client().post("/api/rag/documents:batch", json=sent, headers=ADMIN)
    assert stored.status_code == 200, stored.json


@pytest.fixture(scope="package")
def models():
    with model_server() as server:
        yield server


@pytest.fixture(scope="package")
def app(tmp_path_factory, models):
    """A service without an engine: pages say what the catalogue knows."""
    folder = tmp_path_factory.mktemp("console")
    with app_with_keys(folder, models_of(models), RetrievalSettings(), api_key=ADMIN_KEY) as app:
        yield app


@pytest.fixture
def anybody(app):
    return Visitor(app)


@pytest.fixture
def admin(app):
    visitor = Visitor(app)
    assert visitor.sign_in(ADMIN_KEY).status_code == 303
    return visitor


@pytest.fixture
def client(app):
    """An administrator's client of the wire."""
    client = app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = ADMIN["Authorization"]
    return client


@pytest.fixture
def new_key(client):
    def make(**wanted):
        answer = client.post("/api/keys", json={"name": "somebody", "scopes": ["read"], **wanted})
        assert answer.status_code == 201, answer.json
        return answer.json

    return make


@pytest.fixture
def signed_in(app, new_key):
    """`signed_in(scopes=…)` returns a visitor who has signed in with a new key that allows this."""

    def sign_in(**wanted):
        visitor = Visitor(app)
        assert visitor.sign_in(new_key(**wanted)["key"]).status_code == 303
        return visitor

    return sign_in
