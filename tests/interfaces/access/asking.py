"""Callers who hold a request open while their key ends, is narrowed or stays."""

import uuid

from schemas.access.callers import Scope
from tests.support.model_server import chat_answer, openai_answer

DOCUMENT = {"id": "a", "text": "The vault opens at nine.", "embedding": [1.0, 0.0]}
"""The document of the collection `docs`."""
ENDS = {
    "revoked": lambda clocked, key, scope: clocked.revoke(key),
    "other scopes": lambda clocked, key, scope: clocked.change(key, Scope.CHAT if scope is Scope.READ else Scope.READ),
    "other collections": lambda clocked, key, scope: clocked.change(key, scope, collections=("other-*",)),
}
"""What ends the rights of a key, by what was done."""


def code_of(how):
    return "key_revoked" if how == "revoked" else "key_unknown"


class Asking:
    """A client that asks with a key of its own, and may have something done while a model works for it."""

    def __init__(self, clocked, *scopes):
        self.clocked, self.client = clocked, clocked.app.test_client()
        self.scope = scopes[0]
        self.key, text = clocked.key(*scopes)
        self.headers = {"Authorization": f"Bearer {text}"}
        self.text = f"The door {uuid.uuid4()} opens at nine."

    def post(self, path, body, **headers):
        """Post the body with the client's own text in place of `NEW`."""
        body = {name: self.text if value == "NEW" else value for name, value in body.items()}
        return self.client.post(path, json=body, headers={**self.headers, **headers})

    def end(self, how="revoked"):
        ENDS[how](self.clocked, self.key, self.scope)

    def stay(self):
        """Change the key in what is none of its rights here."""
        self.clocked.change(self.key, self.scope, chats_per_day=1)

    def while_models_work(self, then, at=0):
        """Have `then` done during a call of a model, after `at` others, and return the calls from now on."""

        def answer(asked):
            then()
            return openai_answer(asked) if "input" in asked else chat_answer(asked)

        self.clocked.models.requests.clear()
        self.clocked.models.script += [*[openai_answer] * at, answer]
        return self.clocked.models.requests

    def traces(self):
        """Return the collections and tables that have the client's text."""
        assert not self.clocked.models.script, "the model was not asked"
        held = "SELECT c.name, d.text FROM documents d JOIN collections c ON c.key = d.collection_key"
        with self.clocked.app.extensions["rag.service"].catalog.read() as transaction:
            found = [name for name, text in map(tuple, transaction.rows(held)) if self.text in text]
            said = str([tuple(row) for row in transaction.rows("SELECT * FROM chat_messages")])
        return found + ["chat_messages"] * (self.text in said)
