"""Compare the time of searches while nothing else happens with their time while a long document is uploaded.

    python -m benchmarks.search.upload_beside_questions [--pages 500] [--scanned] [--clients 1] [--every-ms 0]
        [--known FOLDER] [--file FILE | --folder FOLDER]

Clients ask `/api/search` one question after the other, or one in so many milliseconds, each of them new, so that it is
embedded. They ask of a quiet service first, then from the upload of a document until its job is done, and then once
more. The document is Markdown of as many words as a PDF of `--pages` pages has, or the file given with `--file`; a
folder is loaded by `rag-wrapper load`, and so is `--known` before anything is measured. The ratio is that of the 95th
percentiles, to the mean of those before and after the upload: it leaves more to be searched.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path

import requests
from fpdf import FPDF
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.table import Table

from interfaces.commands.scratch_service import ScratchService, command, scratch_service

WORDS_OF_PAGE = 400
QUIET_SECONDS = 20.0
WARM_UP_SECONDS = 3.0
SETTLED_SECONDS = 7.0
"""After this time without writes a collection's words are merged."""
LOOK_SECONDS = 0.25
SYLLABLES = ("ba", "ke", "lo", "mi", "nu", "pra", "ste", "tri", "vo", "xa", "yel", "zor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--scanned", action="store_true", help="upload pictures of the pages")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--every-ms", type=float, default=0.0)
    parser.add_argument("--known", type=Path, help="load this folder before")
    parser.add_argument("--file", type=Path, help="upload this file instead")
    parser.add_argument("--folder", type=Path, help="load this folder instead")
    asked = parser.parse_args()
    if asked.file:
        name, content = asked.file.name, asked.file.read_bytes()
    elif asked.scanned:
        name, content = "scan.pdf", _scan(_pages(asked.pages, seed=1))
    else:
        name, content = "long.md", "\n\n".join(_pages(asked.pages, seed=1)).encode()
    title = str(asked.folder) if asked.folder else f"{name}, {len(content) / 1e6:.1f} MB"
    with tempfile.TemporaryDirectory() as directory, scratch_service(Path(directory)) as service:
        _job(service, "known.md", "\n\n".join(_pages(50, seed=2)).encode())
        if asked.known:
            _load(service, asked.known)
            time.sleep(SETTLED_SECONDS)
        measure = partial(_measure, service, _questions(asked.folder), asked.clients, asked.every_ms)
        measure(_for_seconds(WARM_UP_SECONDS))
        quiet = measure(_for_seconds(QUIET_SECONDS))
        work = partial(_load, service, asked.folder) if asked.folder else partial(_job, service, name, content)
        working = threading.Thread(target=work)
        working.start()
        beside = measure(working.is_alive)
        working.join()
        time.sleep(SETTLED_SECONDS)
        after = measure(_for_seconds(QUIET_SECONDS))
    _show(f"{title}, {asked.clients} clients", quiet, beside, after)


def _for_seconds(seconds: float) -> Callable[[], bool]:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() < until


def _measure(
    service: ScratchService, questions: Iterator[str], clients: int, every_ms: float, goes_on: Callable[[], bool]
) -> list[float]:
    lock = threading.Lock()

    def client(_: int) -> list[float]:
        took = []
        with requests.Session() as session:
            while goes_on():
                with lock:
                    question = next(questions)
                took.append(_ask(session, service, question))
                time.sleep(max(0.0, every_ms - took[-1]) / 1e3)
        return took

    with ThreadPoolExecutor(clients) as threads:
        return [each for took in threads.map(client, range(clients)) for each in took]


def _ask(session: requests.Session, service: ScratchService, question: str) -> float:
    began = time.perf_counter()
    answer = session.post(f"{service.url}/api/search", json={"query": question, "min_relevance": 0}, timeout=60)
    latency_ms = (time.perf_counter() - began) * 1e3
    assert answer.json()["results"], answer.text
    return latency_ms


def _job(service: ScratchService, name: str, content: bytes) -> None:
    answer = requests.post(f"{service.url}/api/documents", files={"file": (name, content)}, timeout=60)
    place = f"{service.url}/api/jobs/{answer.json()['job']['id']}"
    while (job := requests.get(place, timeout=60).json())["status"] in ("queued", "running"):
        time.sleep(LOOK_SECONDS)
    assert job["status"] == "done", job
    print(f"{name}: {job['files'][0]['chunks']} chunks, {job['created_at']} to {job['finished_at']}")


def _load(service: ScratchService, folder: Path) -> None:
    began = time.monotonic()
    subprocess.run(command("load", str(folder)), env=service.environ, check=True)
    print(f"loaded in {time.monotonic() - began:.0f} s")


def _show(title: str, quiet: list[float], beside: list[float], after: list[float]) -> None:
    table = Table(title=title)
    for name in ("", "searches", "p50 ms", "p95 ms", "p99 ms", "longest ms"):
        table.add_column(name, justify="right" if name else "left")
    for name, took in (("quiet", quiet), ("beside the upload", beside), ("after it", after)):
        table.add_row(
            name, str(len(took)), *(f"{_percentile(took, part):.1f}" for part in (50, 95, 99)), f"{max(took):.0f}"
        )
    Console().print(table)
    least = statistics.mean((_percentile(quiet, 95), _percentile(after, 95)))
    print(f"p95 beside / p95 before and after: {_percentile(beside, 95) / least:.2f}")


def _percentile(took: list[float], part: int) -> float:
    return statistics.quantiles(took, n=100)[part - 1]


def _pages(number: int, seed: int) -> Iterator[str]:
    drawn = random.Random(seed)
    words = ["".join(drawn.choices(SYLLABLES, k=drawn.randint(1, 4))) for _ in range(20_000)]
    for page in range(number):
        text = " ".join(drawn.choices(words, k=WORDS_OF_PAGE))
        yield f"## Section {page}\n\n{text}."


def _scan(pages: Iterable[str]) -> bytes:
    """Return a PDF of pictures of pages, A4 at 150 dots per inch."""
    pdf, font = FPDF(format="A4"), ImageFont.load_default(22)
    pdf.set_image_filter("DCTDecode")
    for text in pages:
        image = Image.new("L", (1240, 1754), 255)
        ImageDraw.Draw(image).multiline_text((120, 120), textwrap.fill(text, 80), fill=0, font=font, spacing=10)
        pdf.add_page()
        pdf.image(image, 0, 0, pdf.w, pdf.h)
    return bytes(pdf.output())


def _questions(folder: Path | None) -> Iterator[str]:
    """Yield questions of the words in a folder's texts, else of words that are in none."""
    drawn = random.Random(3)
    texts = [file for kind in ("*.md", "*.txt") for file in sorted(folder.rglob(kind))] if folder else []
    words = sorted({word for file in texts for word in file.read_text(errors="replace").split()})
    words = words or ["".join(drawn.choices(SYLLABLES, k=3)) for _ in range(20_000)]
    for number in count():
        yield f"{number} " + " ".join(drawn.choices(words, k=6))


if __name__ == "__main__":
    main()
