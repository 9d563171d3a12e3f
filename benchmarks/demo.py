"""`make demo`: runs the service from start to stop on the project's own documentation and checks every answer.

    python -m benchmarks.demo [FOLDER]

With a folder, it is the documentation in that one: README.md, CONTRIBUTING.md and what is in docs/.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.panel import Panel

from interfaces.asked_service import service_to_ask
from interfaces.commands.scratch_service import ScratchService, command, scratch_service
from providers.outbound.json_client import JsonClient
from retrieval.ingest.walk import walk
from schemas.errors import RagError
from schemas.plurals import counted

COLLECTION = "documentation"
QUESTION = "What happens to acknowledged documents when the process is killed?"
PROJECT = Path(__file__).parents[1]
DOCUMENTATION = ("README.md", "CONTRIBUTING.md", "docs")


class WrongAnswerError(RagError):
    """The service's answer differs from what the files say."""

    code = "wrong_answer"


@dataclass
class Demo:
    """Uses a service as people do, on the documentation in `folder`, and raises WrongAnswerError for a wrong answer."""

    service: ScratchService
    folder: Path
    console: Console
    checks: int = 0

    def run(self) -> None:
        files, load = len(walk(self.folder).files), ("load", str(self.folder), "--collection", COLLECTION)
        loaded = self._type(*load)
        self._check("each file is loaded", f"{counted(files, 'file')}, " in loaded and f": {files} created" in loaded)
        self._check("a second load has nothing to do", self._type(*load).startswith("nothing changed"))
        self._check("a question finds something", bool(self._type("search", QUESTION, "--top-k", "3")))
        with service_to_ask(self.service.url) as client:
            self._show_section(client)
            self._show_counts(client)
        self._check("without a chat model, ask shows the passages", bool(self._type("ask", QUESTION)))

    def _show_section(self, client: JsonClient) -> None:
        gather = {"by": "section_id", "order_by": ["chunk_index"]}
        asked = {"query": QUESTION, "collections": [COLLECTION], "limit": 5, "gather": gather}
        answer = client.post("/api/search", asked)
        best, group = answer["results"][0], answer["groups"][0]
        chunks = group["documents"]
        self.console.rule("The whole section of the best hit, in the same call")
        self.console.print(Panel(Markdown("\n\n".join(each["text"] for each in chunks))))
        places = [each["metadata"]["chunk_index"] for each in chunks]
        source = self.folder.parent / best["metadata"]["source"]
        lines = {line.strip() for line in source.read_text(encoding="utf-8").splitlines()} | {""}
        said = {line.strip() for each in chunks for line in each["text"].splitlines()}
        self._check("the section is whole, and in reading order", group["complete"] and places == sorted(places))
        self._check("the best hit is in it", best["chunk_id"] in [each["id"] for each in chunks])
        self._check(f"it stands so in {best['metadata']['source']}", lines >= said)

    def _show_counts(self, client: JsonClient) -> None:
        source = f"{COLLECTION}/README.md"
        asked = {"where": json.dumps({"source": source}), "order_by": "-chunk_index", "limit": 5}
        page = client.call("GET", f"/collections/{COLLECTION}/documents", params=asked)
        facets = client.get(f"/collections/{COLLECTION}/facets?fields=source&limit=1000")
        counts = {each["value"]: each["count"] for each in facets["facets"]["source"]["values"]}
        places = [each["metadata"]["chunk_index"] for each in page["documents"]]
        self.console.rule("Chunks by source, and the last of one of them first")
        self.console.print(counts, places)
        self._check("a filtered page has the last chunks, last first", places == list(range(page["total"]))[:-6:-1])
        self._check("totals are exact", counts[source] == page["total"])
        self._check("the counts add up", sum(counts.values()) == facets["total"])

    def _type(self, *arguments: str) -> str:
        """Run a command as a user types it and return what it says."""
        self.console.rule(f"$ rag-wrapper {arguments[0]}")
        result = subprocess.run(
            command(*arguments), env=self.service.environ, stdout=subprocess.PIPE, text=True, timeout=600, check=False
        )
        self.console.print(result.stdout.rstrip(), markup=False, highlight=False)
        if result.returncode:
            raise WrongAnswerError(f"'rag-wrapper {' '.join(arguments)}' ended with exit code {result.returncode}")
        return result.stdout.strip()

    def _check(self, claim: str, holds: bool) -> None:
        if not holds:
            raise WrongAnswerError(f"This does not hold: {claim}")
        self.checks += 1
        self.console.print(f"  ✓ {claim}", style="green", markup=False, highlight=False)


def copy_documentation(project: Path, folder: Path) -> None:
    """Copy the project's documentation, and nothing else of it, into `folder`."""
    folder.mkdir()
    for name in DOCUMENTATION:
        if (project / name).is_dir():
            shutil.copytree(project / name, folder / name)
        elif (project / name).is_file():
            shutil.copy(project / name, folder)


def main() -> int:
    """Return 0 when every answer was right and no process was left behind, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", metavar="FOLDER", type=Path, nargs="?", default=PROJECT)
    project = parser.parse_args().project
    console = Console()
    try:
        with tempfile.TemporaryDirectory(prefix="rag-wrapper-demo-") as directory:
            place = Path(directory).resolve()
            copy_documentation(project, place / COLLECTION)
            with scratch_service(place, documents_collection=COLLECTION) as service:
                console.print(f"The service is healthy at {service.url}", highlight=False)
                demo = Demo(service, place / COLLECTION, console)
                try:
                    demo.run()
                except RagError as error:
                    raise WrongAnswerError(f"{error.message}\nThe service's last words:\n{service.log_tail}") from error
    except RagError as error:
        console.print(f"\n{error.message}", style="bold red", markup=False, highlight=False)
        return 1
    held = f"All {demo.checks} checks hold. The service is stopped and its directory removed."
    console.print(f"\n{held}", style="bold green")
    return 0


if __name__ == "__main__":
    sys.exit(main())
