"""Nothing that chromadb's own clients were told is lost when the whole service is killed while they write.

`make soak` (RAG_SOAK_CLIENTS) kills it thirty times, and a stock `chroma run` as often with the same choices, and prints
what became of them. A stock server that has lost something is given a new directory, since it may answer nothing from then
on.
"""

import os
import random

import pytest

from tests.durability.chroma_clients.rounds import Ours, Stock, acknowledged, one_round, prepared

WHOLE = "RAG_SOAK_CLIENTS" in os.environ
ROUNDS = int(os.environ.get("RAG_SOAK_CLIENTS", "2"))
LONGEST_SECONDS = 4.0 if WHOLE else 1.0
SHOWN_CHARACTERS = 300


@pytest.mark.timeout(300 + 120 * ROUNDS)
@pytest.mark.parametrize("kind", [Ours, Stock] if WHOLE else [Ours])
def test_what_clients_of_chroma_were_told_is_there_after_each_kill(tmp_path, kind):
    generator, told, harmed, server = random.Random(1), 0, 0, None
    try:
        for number in range(ROUNDS):
            if server is None:
                server = kind(tmp_path / str(number))
                writers = prepared(server)
            before = acknowledged(writers)
            complaints = one_round(server, writers, generator, LONGEST_SECONDS)
            told += acknowledged(writers) - before
            print(f"{number + 1:3} {kind.__name__}", *(each[:SHOWN_CHARACTERS] for each in complaints), sep="  ")
            if complaints:
                assert kind is Stock, complaints
                harmed += 1
                server.stop()
                server = None
    finally:
        if server is not None:
            server.stop()
    assert told >= ROUNDS
    print(f"{kind.__name__}: {ROUNDS} kills, {told:,} requests acknowledged, {harmed} kills did harm")
