"""What a program that asks a server writes down: a line of JSON for each step."""

from __future__ import annotations

import json
import os

HOST, PORT, KEY = "127.0.0.1", int(os.environ["CHROMA_PORT"]), os.environ["CHROMA_KEY"]
BEARER = {"Authorization": f"Bearer {KEY}"}


def step(name, ask):
    """Write down what `ask` returns. Numbers with a fraction are rounded: two indexes add in
    another order."""
    try:
        _told(name, json.dumps(_plain(ask()), sort_keys=True))
    except Exception as error:
        _told(name, f"FAILED {type(error).__name__}", error)


def refused(name, ask):
    """Write down the class of what `ask` raises, which it should."""
    try:
        _told(name, json.dumps(_plain(ask()), sort_keys=True))
    except Exception as error:
        _told(name, f"refused {type(error).__name__}", error)


def _told(name, outcome, said=""):
    print(json.dumps({"step": name, "outcome": outcome, "said": str(said)[:300]}), flush=True)


def _plain(value):
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return value if isinstance(value, str | int | bool | None) else str(value)
