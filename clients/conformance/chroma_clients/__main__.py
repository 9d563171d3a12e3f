"""`make conformance`: ask `/api/v2` by the clients of Chroma that other products have, with a key, beside a stock
`chroma run`.

Prints what both servers did, step by step and test by test, and exits with 0 when all that works there works here in the
same way, but for what `meant.yaml` names with a reason. Arguments are names of clients; without any, all are run. It
needs the network, or the caches of pip and npm, and takes about ten minutes.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

import requests
import yaml

from clients.conformance.chroma_clients.clients import CLIENTS, Client
from clients.conformance.chroma_clients.environments import command, outcomes
from tests.support.chroma import ChromaServer
from tests.support.live import live_service

ADMIN = "conformance-administrator-key"
MEANT = Path(__file__).with_name("meant.yaml")


def main() -> int:
    chosen = {name: client for name, client in CLIENTS.items() if not sys.argv[1:] or name in sys.argv[1:]}
    meant = yaml.safe_load(MEANT.read_text())
    with tempfile.TemporaryDirectory(prefix="rag-wrapper-chroma-clients-") as made:
        folder = Path(made)
        programs = {name: command(client, folder / client.program) for name, client in chosen.items()}
        stock = ChromaServer(folder / "there", may_reset=True)
        stock.start()
        try:
            with live_service(folder, access="keys", api_key=ADMIN) as service:
                passed = {}
                for name, client in chosen.items():
                    key = _key(service.url, name)
                    there, here = (
                        outcomes(client, programs[name], folder / client.program, port, key)
                        for port in (stock.port, service.port)
                    )
                    passed[name] = _judged(name, client, there, here, meant.get(name, {}))
        finally:
            stock.stop(signal.SIGTERM)
    for name, is_passed in passed.items():
        print(f"{'passed' if is_passed else 'FAILED'}  {name}")
    return 0 if passed and all(passed.values()) else 1


def _key(url: str, name: str) -> str:
    """Return a new key that may do anything with records and collections, and nothing else."""
    body = {"name": name, "scopes": ["manage"]}
    answer = requests.post(f"{url}/api/keys", json=body, headers={"Authorization": f"Bearer {ADMIN}"}, timeout=60)
    assert answer.ok, answer.text
    key: str = answer.json()["key"]
    return key


def _judged(name: str, client: Client, there: dict[str, str], here: dict[str, str], meant: dict[str, str]) -> bool:
    """Print both columns, and return whether they agree wherever they should."""
    faults = []
    print(f"\n{name}\n{'chroma run':28} {'here':28}")
    for each in there | here:
        one, other = there.get(each, "-"), here.get(each, "-")
        print(f"{_word(one):28} {_word(other):28} {each}{f' ({meant[each]})' if each in meant else ''}")
        if each not in meant and not _agree(client, one, other):
            faults.append(f"{each}\n  chroma run: {one}\n  here:       {other}")
    good = [sum(not outcome.startswith(("FAILED", "ERROR")) for outcome in column.values()) for column in (there, here)]
    print(f"{name}: {good[0]} of {len(there)} work on chroma run, {good[1]} of {len(here)} here")
    for fault in faults:
        print(f"FAILED  {fault}")
    return bool(good[0]) and not faults


def _agree(client: Client, there: str, here: str) -> bool:
    if client.is_suite:
        return there != "PASSED" or here == "PASSED"
    return there == here and not there.startswith("FAILED")


def _word(outcome: str) -> str:
    is_word = outcome.startswith(("PASSED", "FAILED", "ERROR", "SKIPPED", "refused", "-"))
    return outcome if is_word else "answered"


if __name__ == "__main__":
    sys.exit(main())
