"""500 bodies of Chroma's protocol, as clients send them and as they should not, do here what they do on a stock server,
but where docs/integrations/chroma.md says that they do not; each of these differences is met."""

import json
import random
import re
import signal
import uuid
from pathlib import Path

import pytest
import requests
import yaml

from schemas.where import MAX_DEPTH
from tests.interfaces.chroma.conftest import DATABASE
from tests.support.chroma import ChromaServer

BODIES = 500
BOOK = Path(__file__).with_name("bodies.yaml")
DOCUMENT = Path(__file__).parents[3] / "docs/integrations/chroma.md"
ROW = re.compile(r"^\| (.+?) \| (taken|refused|fails|no answer)\b.*? \| (taken|refused|fails)\b.* \|$", re.MULTILINE)
WORDS = {0: "no answer", 2: "taken", 4: "refused", 5: "fails"}
EVERYTHING = ["documents", "metadatas", "embeddings", "uris"]


def nested(levels, leaf):
    part = leaf
    for level in range(levels):
        part = {("$and", "$or")[level % 2]: [part, leaf]}
    return part


def bodies(book):
    """Yield (route, body as bytes, media type, rows that it falls under): first one for each value of a row alone."""
    chosen = random.Random(20261129)
    values = {field: [(value, None) for value in known] for field, known in book["like_stock"].items()}
    for levels in (10, min(62, MAX_DEPTH - 1)):  # a stock server takes no more than 62
        values["where"].append((nested(levels, {"#document": {"$not_contains": "keep"}}), None))
        values["where_document"].append((nested(levels, {"$contains": "keep"}), None))
    for row, told in book["told"].items():
        for field, known in told.items():
            values[field] += [(value, row) for value in known]

    def of(route, field):
        return values.get(f"{field} of {route}", values.get(field, ()))

    fields = {
        route: [*known, *["media_type", "whole"] * (route == "get")] for route, (_, known) in book["routes"].items()
    }
    told = [
        (route, field, *each) for route in fields for field in fields[route] for each in of(route, field) if each[1]
    ]
    for number in range(len(told) + BODIES):
        if number < len(told):
            route, *changed = told[number][0], told[number][1:]
        else:
            route = [*fields][number % len(fields)]
            many = chosen.choice((1, 1, 1, 2, 2, 3))
            changed = [(each, *chosen.choice(of(route, each))) for each in chosen.sample(fields[route], many)]
        ordinary = {"name": f"made-{number}"} if route == "make" else book["routes"][route][0]
        body = ordinary | {field: value for field, value, _ in changed}
        if number >= len(told) and chosen.random() < 0.05:
            body.pop(chosen.choice([*body]))
        media_type, whole = body.pop("media_type", {}), body.pop("whole", None)
        content = (json.dumps(body) if whole is None else whole).encode()
        yield route, content, media_type, {row for _, _, row in changed if row}


class Server:
    """One of the two, asked by `ask(method, path, body, headers)`, which returns (status, decoded answer)."""

    def __init__(self, ask):
        self._ask, self._id, self._name = ask, None, None

    def fill(self, records):
        self._name = f"filled-{uuid.uuid4().hex}"
        self._id = self._read("POST", "", {"name": self._name})["id"]
        self._read("POST", f"/{self._id}/add", records)
        return self.state()

    def outcome(self, route, content, media_type):
        """Return the status, what can be compared of the answer, and the state that is left."""
        path = {"make": "", "change": f"/{self._id}", "drop": f"/{self._name}"}.get(route, f"/{self._id}/{route}")
        headers = {"Content-Type": media_type} if isinstance(media_type, str) else media_type
        path += headers.get("slash", "")  # no server knows a header of that name
        status, answer = self._ask({"change": "PUT", "drop": "DELETE"}.get(route, "POST"), path, content, headers)
        if route == "make" and status == 200:
            answer = self._described(answer)
        return status, answer if status // 100 == 2 else None, (route, status) == ("drop", 200) or self.state()

    def state(self):
        """Return all that can be read back of the collection, but for its names."""
        records = self._read("POST", f"/{self._id}/get", {"include": EVERYTHING})
        described = self._described(self._read("GET", f"/by-id/{self._id}"))
        return described, records, self._read("GET", f"/{self._id}/count")

    def _described(self, collection):
        return collection["metadata"], collection["configuration_json"], collection["dimension"]

    def _read(self, method, path, body=None):
        status, answer = self._ask(method, path, None if body is None else json.dumps(body).encode(), {})
        assert status in (200, 201), answer
        return answer


def alike(value):
    """Return a value whose floats are no more exact than float32."""
    return json.loads(json.dumps(value), parse_float=lambda digits: float(f"{float(digits):.5g}"))


@pytest.fixture
def servers(processes, tmp_path, client):
    stock = ChromaServer(tmp_path)
    stock.start()

    def ask_stock(method, path, body, headers):
        try:
            answer = requests.request(method, f"{stock.url}{DATABASE}/collections{path}", data=body, headers=headers)
        except requests.ConnectionError:
            return 0, None
        return answer.status_code, answer.json() if answer.ok else answer.text

    def ask_here(method, path, body, headers):
        answer = client.open(f"{DATABASE}/collections{path}", method=method, data=body, headers=headers)
        return answer.status_code, answer.json

    yield Server(ask_stock), Server(ask_here)
    stock.stop(signal.SIGTERM)


def test_bodies_have_the_same_effect_as_on_a_stock_server_but_for_what_is_told(servers):
    rows = {row: outcomes for row, *outcomes in ROW.findall(DOCUMENT.read_text())}
    book = yaml.safe_load(re.sub(r"x\*(\d+)", lambda found: "x" * int(found[1]), BOOK.read_text()))
    met, wrong, before = set(), [], None
    for route, content, media_type, told in bodies(book):
        if before is None:
            before = alike([each.fill(book["filled"]) for each in servers])
        outcomes = [each.outcome(route, content, media_type) for each in servers]
        words = [WORDS[status // 100] for status, _, _ in outcomes]
        if words[0] != words[1] or alike(outcomes[0][1:]) != alike(outcomes[1][1:]):
            met |= told
            if not any(rows.get(row) == words for row in told):
                wrong.append((route, content[:300], media_type, told, [each[:2] for each in outcomes]))
        before = before if alike([state for _, _, state in outcomes]) == before else None
    assert not wrong, "\n".join(map(str, wrong))
    assert met == set(rows)
