"""Measure how the cost of everything grows with the collection, up to a million documents.

    python -m benchmarks.growth [--sizes 10000,30000,…] [--keep DIR] [--json figures.json] [--svg growth.svg]

At each size there are the load to it, reads and adds, memory, a check-up, a restart, a backup, the disk, the delete of
a tenth by a filter, and a rebuild of the index. A stock `chroma run` has the same documents and takes turns in
answering up to `--peer-up-to` documents; beyond that this service is alone. Texts are short, which are quick to add.

With `--keep`, the data stays in a directory, and a later run with it goes on where the last one ended. `--plot
figures.json` draws the figures of an earlier run instead.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import orjson

from benchmarks import report
from benchmarks.clients import RefusedError
from benchmarks.growth.picture import plot
from benchmarks.growth.running import Figures, Growth, Plan
from schemas.errors import RagError
from schemas.storage.engine_records import ENGINE_RECORDS, FULL

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)


def sizes(text: str) -> list[int]:
    return sorted(int(each) for each in text.split(","))


def run(arguments: argparse.Namespace) -> Figures:
    with ExitStack() as stack:
        directory = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(parents=True, exist_ok=True)
        kept = directory / "figures.json"
        setting = {"dimension": arguments.dimension, "records": arguments.records}
        figures: Figures = {**setting, "machine": report.machine(), "loaded": 0, "loaded_there": 0, "sizes": {}}
        if kept.exists():
            figures = orjson.loads(kept.read_bytes())
            if {name: figures[name] for name in setting} != setting:
                raise RefusedError(f"{directory} was begun with other settings")

        def save() -> None:
            for file in (kept, arguments.json):
                if file:
                    file.write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2))

        plan = Plan(
            arguments.sizes,
            arguments.dimension,
            arguments.records,
            arguments.peer_up_to,
            max(arguments.sizes) if arguments.rebuild_up_to is None else arguments.rebuild_up_to,
            arguments.batch,
            directory,
        )
        Growth(plan, figures, save).run()
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=sizes, default=list(SIZES))
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--batch", type=int, default=500, help="documents of a request of the load")
    parser.add_argument("--records", choices=ENGINE_RECORDS, default=FULL, help="what the engine gets of a document")
    parser.add_argument("--peer-up-to", type=int, default=100_000, help="the largest size of chroma run; 0 for none")
    parser.add_argument("--rebuild-up-to", type=int, help="the largest size whose index is rebuilt; default: all")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the data there, or go on with it")
    parser.add_argument("--json", type=Path, help="write the figures to this file after each size")
    parser.add_argument("--plot", type=Path, metavar="JSON", help="measure nothing, draw these figures")
    parser.add_argument("--svg", type=Path, help="draw the figures into this file (needs matplotlib)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        figures = orjson.loads(arguments.plot.read_bytes()) if arguments.plot else run(arguments)
    except (RefusedError, RagError, OSError) as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return 1
    if arguments.svg:
        plot(figures, arguments.svg)
    return 0


if __name__ == "__main__":
    sys.exit(main())
