"""`python -m tests.durability.chroma_clients`: kill this service and a stock `chroma run` while chromadb's clients write.

They take turns, round by round, with the same choices. Ends with 1 when this service has lost anything. A stock server
that has is given a new directory, since it may answer nothing from then on.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.durability.chroma_clients.rounds import one_round, prepared
from tests.durability.chroma_clients.servers import Ours, Stock

SHOWN_CHARACTERS = 300


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=4.0, help="the longest that a round writes  [default: 4]")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    acknowledged: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="rag-wrapper-kills-") as made:
        folder = Path(made)
        sides: dict[str, tuple[Any, Any]] = {}
        choices = {kind.name: random.Random(arguments.seed) for kind in (Ours, Stock)}
        try:
            for number in range(arguments.rounds):
                for kind in (Ours, Stock):
                    name = kind.name
                    if name not in sides:
                        server = kind(folder / f"{name.replace(' ', '-')}-{number}")
                        sides[name] = server, prepared(server)
                    server, writers = sides[name]
                    before = sum(writer.acknowledged for writer in writers)
                    complaints = one_round(server, writers, choices[name], arguments.seconds)
                    acknowledged[name] += sum(writer.acknowledged for writer in writers) - before
                    records = sum(len(writer.state) for writer in writers)
                    print(
                        f"{number + 1:3} {name:12} {records:7,} records",
                        *(c[:SHOWN_CHARACTERS] for c in complaints),
                        sep="  ",
                        flush=True,
                    )
                    if complaints:
                        broken[name] += 1
                        server.stop()
                        del sides[name]
        finally:
            for server, _ in sides.values():
                server.stop()
    for kind in (Ours, Stock):
        print(
            f"{kind.name}: {arguments.rounds} kills, {acknowledged[kind.name]:,} requests acknowledged, {broken[kind.name]} kills did harm"
        )
    return 1 if broken[Ours.name] else 0


if __name__ == "__main__":
    sys.exit(main())
