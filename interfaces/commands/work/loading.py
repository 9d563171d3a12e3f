"""The work of `rag-wrapper load` and `rag-wrapper delete`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from interfaces.commands.options import MAX_NAMED, documents_progress, log_to_stderr, printable, show_lines
from interfaces.commands.work.uploading import (
    CREATED,
    PASSED_OVER,
    UNCHANGED,
    UPDATED,
    Outcome,
    Uploader,
    below,
    clients_at,
    stored_documents,
)
from retrieval.ingest.identity import one_spelling
from retrieval.ingest.walk import Found, walk
from schemas.contracts.jobs import FAILED
from schemas.errors import InvalidInputError
from schemas.names import check_collection_name
from schemas.plurals import counted


def load(
    ctx: click.Context,
    path: Path,
    collection: str | None,
    url: str,
    source_prefix: str | None,
    follow_links: bool,
    prune: bool,
    allow_empty: bool,
    verbose: bool,
) -> None:
    """Load what `path` names. The options are those of the command."""
    log_to_stderr(logging.WARNING)
    if collection is not None:
        check_collection_name(collection, field="collection")
    found = walk(path, follow_links=follow_links)
    folder = found.folder if source_prefix is None else source_prefix.rstrip("/")
    if prune and (path.is_file() or not folder):
        raise click.UsageError("--prune is for a folder whose documents have its name in front.")
    if not found.files and not found.errors and not (prune and allow_empty):
        raise InvalidInputError(_nothing_in(path, found, prune=prune))
    before = f"{folder}/" if folder else ""
    with clients_at(url) as clients, _going_on_there(), _progress() as tell:
        uploader = Uploader(clients, collection=collection, tell=tell, say=_say)
        files = {f"{before}{each.path_below}": each for each in found.files}
        outcome = uploader.bring(files)
        for each in found.passed_over:
            outcome.refuse(f"{before}{each.path}", each.code, each.reason)
            outcome.became[f"{before}{each.path}"] = PASSED_OVER
        for error in found.errors:
            outcome.refuse(f"{before}{error.source}", error.code, error.message)
        deleted = _prune(uploader, before, outcome, found) if prune else 0
    warnings = [f"{name}: {each}" for name, some in outcome.warnings.items() for each in some]
    for lines in (warnings, _named(outcome, PASSED_OVER), _named(outcome, FAILED)):
        show_lines(lines, len(lines) if verbose else MAX_NAMED)
    click.echo(summary(outcome, deleted))
    # Of records, each warning is of a line that could not be stored.
    has_bad_lines = any(files[name].kind.is_records for name in outcome.warnings)
    ctx.exit(1 if outcome.count(FAILED) or has_bad_lines else 0)


def delete(ctx: click.Context, sources: Sequence[str], prefix: str | None, collection: str | None, url: str) -> None:
    """Delete the documents of these sources, and those whose source begins with the prefix."""
    if bool(sources) == (prefix is not None):
        raise click.UsageError("Say which documents: by SOURCE, or by --below PREFIX.")
    if prefix == "":
        raise click.UsageError("--below needs the beginning of a source.")
    if collection is not None:
        check_collection_name(collection, field="collection")
    with clients_at(url) as clients:
        uploader = Uploader(clients, collection=collection)
        with uploader.client.reading():
            target = uploader.client.compare_files({}, collection=collection, metadata={})["collection"]
        where = below(one_spelling(prefix)) if prefix else {"source": {"$in": [one_spelling(each) for each in sources]}}
        found = stored_documents(uploader.client, target, where)
        deleted = sum(uploader.delete(document, target) for document in found)
    missing = [each for each in sources if one_spelling(each) not in found.values()]
    for each in missing:
        click.echo(printable(f"{each}: is not stored"), err=True)
    click.echo(f"{target}: {counted(deleted, 'document')} deleted")
    ctx.exit(1 if missing or not found else 0)


def summary(outcome: Outcome, deleted: int) -> str:
    """Return the load in one line: what is stored, what was done for that, what is missing."""
    stored = sum(outcome.count(word) for word in (CREATED, UPDATED, UNCHANGED))
    passed_over = f", {outcome.count(PASSED_OVER)} passed over" if outcome.count(PASSED_OVER) else ""
    if stored == outcome.count(UNCHANGED) and not deleted and not outcome.count(FAILED):
        return f"nothing changed: {counted(stored, 'file')} {'is' if stored == 1 else 'are'} already there{passed_over}"
    deeds = [f"{count} {word}" for word in (CREATED, UPDATED, UNCHANGED) if (count := outcome.count(word))]
    deeds += [f"{deleted} deleted"] if deleted else []
    failed = f", {outcome.count(FAILED)} failed" if outcome.count(FAILED) else ""
    chunks = f", {counted(outcome.chunks, 'new chunk')}" if outcome.chunks else ""
    done = ", ".join(deeds) or "nothing stored"
    return f"{outcome.collection}: {counted(stored, 'file')}{chunks}: {done}{passed_over}{failed}"


def _prune(uploader: Uploader, before: str, outcome: Outcome, found: Found) -> int:
    """Delete what is stored of the folder and not in it any more; what is below a folder that cannot be listed may
    still be there. Return how many documents."""
    there = {one_spelling(f"{before}{each.path_below}") for each in found.files}
    unsure = tuple(one_spelling(f"{before}{each.source}") for each in found.errors)
    stored = stored_documents(uploader.client, outcome.collection, below(one_spelling(before)))
    gone = [document for document, source in stored.items() if source not in there and not source.startswith(unsure)]
    return sum(uploader.delete(document, outcome.collection) for document in gone)


def _nothing_in(path: Path, found: Found, *, prune: bool) -> str:
    named = "".join(f"\n{each}" for each in found.passed_over[:MAX_NAMED])
    otherwise = "; --allow-empty deletes all that is stored of it" if prune else ""
    return f"'{path}' contains no files that can be loaded{otherwise}{named}"


def _named(outcome: Outcome, word: str) -> list[str]:
    mark = "passed over: " if word == PASSED_OVER else ""
    return [f"{mark}{name}: {outcome.reasons[name]}" for name, became in outcome.became.items() if became == word]


def _say(sentence: str) -> None:
    click.echo(printable(sentence), err=True)


@contextmanager
def _going_on_there() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        _say("Interrupted: what was uploaded goes on in the service, and loading again does the rest")
        raise


@contextmanager
def _progress() -> Iterator[Callable[[int, int, int], None]]:
    """Give the function that shows a bar, on a terminal only."""
    with documents_progress() as progress:
        task = progress.add_task("", total=None)

        def tell(done: int, total: int, chunks: int) -> None:
            progress.update(task, completed=done, total=total or 1, description=f"files, {chunks} chunks stored")

        yield tell
