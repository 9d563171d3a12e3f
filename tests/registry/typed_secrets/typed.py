"""A connection with a secret that a person typed."""

from schemas.connections import Connection

TYPED = "sk-typed-5d20"
AT_FIRST = "http://first:8000/v1"
ENVIRON = {"FIRST_URL": "http://first:8000", "WORDS_API_KEY": "sk-planted"}


def there(connection_id="there", **config):
    return Connection(connection_id, "llm", "openai", {"url": AT_FIRST, "api_key": TYPED, **config})


def key_of(connections, connection_id="there"):
    return connections.open(connection_id, "llm").config["api_key"]
