"""Nothing that chromadb's own clients were told is lost when the whole service is killed while they write.

`python -m tests.durability.chroma_clients` does the same to a stock `chroma run` beside it, and `make soak` starts it.
"""

import random

from tests.durability.chroma_clients.rounds import one_round, prepared
from tests.durability.chroma_clients.servers import Ours

ROUNDS = 2
LONGEST_SECONDS = 1.0


def test_what_clients_of_chroma_were_told_is_there_after_each_kill(tmp_path):
    server, generator = Ours(tmp_path), random.Random(1)
    try:
        writers = prepared(server)
        for _ in range(ROUNDS):
            assert one_round(server, writers, generator, LONGEST_SECONDS) == []
        assert sum(writer.acknowledged for writer in writers) >= ROUNDS
    finally:
        server.stop()
