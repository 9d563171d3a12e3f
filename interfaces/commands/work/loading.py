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
    gone_from,
    stored_documents,
)
from retrieval.ingest.identity import stored_name
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
    folder = stored_name(found.folder if source_prefix is None else source_prefix)
    if prune and (path.is_file() or not folder):
        raise click.UsageError("--prune is for a folder whose documents have its name in front.")
    if not found.files and (prune or not found.errors) and not (prune and allow_empty):
        raise InvalidInputError(_nothing_in(path, found, prune=prune))
    before = f"{folder}/" if folder else ""
    with clients_at(url) as clients, _going_on_there(), _progress() as tell:
        uploader = Uploader(clients, collection=collection, tell=tell, say=_say)
        files = {stored_name(f"{before}{each.path_below}"): each for each in found.files}
        outcome = uploader.bring(files)
        for each in found.passed_over:
            outcome.refuse(f"{before}{each.path}", each.code, each.reason)
            outcome.became[f"{before}{each.path}"] = PASSED_OVER
        for error in found.errors:
            name = f"{before}{error.source}"
            outcome.refuse(f"{name} (another)" if name in files else name, error.code, error.message)
        deleted = _prune(uploader, before, outcome, found, allow_empty=allow_empty) if prune else 0
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
    if prefix is not None and not stored_name(prefix):
        raise click.UsageError("--below needs the name of a folder.")
    if collection is not None:
        check_collection_name(collection, field="collection")
    with clients_at(url) as clients:
        uploader = Uploader(clients, collection=collection)
        with uploader.client.reading():
            target = uploader.client.compare_files({}, collection=collection, metadata={})["collection"]
        names = [stored_name(each) for each in sources]
        where = below(f"{stored_name(prefix)}/") if prefix else {"source": {"$in": names}}
        found = stored_documents(uploader.client, target, where)
        deleted = sum(uploader.delete(document, target) for document in found)
    missing = [each for each in sources if stored_name(each) not in found.values()]
    for each in missing:
        click.echo(printable(f"{each}: is not stored"), err=True)
    click.echo(f"{target}: {counted(deleted, 'document')} deleted")
    ctx.exit(1 if missing or not found else 0)


def summary(outcome: Outcome, deleted: int) -> str:
    """Return the load in one line: what is stored, what was done for that, what is missing."""
    stored = sum(outcome.count(word) for word in (CREATED, UPDATED, UNCHANGED))
    passed_over = f", {outcome.count(PASSED_OVER)} passed over" if outcome.count(PASSED_OVER) else ""
    if stored == outcome.count(UNCHANGED) > 0 and not deleted and not outcome.count(FAILED):
        return f"nothing changed: {counted(stored, 'file')} {'is' if stored == 1 else 'are'} already there{passed_over}"
    deeds = [f"{count} {word}" for word in (CREATED, UPDATED, UNCHANGED) if (count := outcome.count(word))]
    deeds += [f"{deleted} deleted"] if deleted else []
    failed = f", {outcome.count(FAILED)} failed" if outcome.count(FAILED) else ""
    chunks = f", {counted(outcome.chunks, 'new chunk')}" if outcome.chunks else ""
    done = ", ".join(deeds) or "nothing stored"
    return f"{outcome.collection}: {counted(stored, 'file')}{chunks}: {done}{passed_over}{failed}"


def _prune(uploader: Uploader, before: str, outcome: Outcome, found: Found, *, allow_empty: bool) -> int:
    """Delete what is stored of the folder and not in it any more, and return how many documents. Raises
    InvalidInputError where that would be all that was stored: then it is another folder of that name."""
    stored = stored_documents(uploader.client, outcome.collection, below(before))
    gone = gone_from(found, stored.values(), before)
    documents = [document for document, source in stored.items() if source in gone]
    new = {name for name, became in outcome.became.items() if became == CREATED}
    if documents and not allow_empty and gone.union(new).issuperset(stored.values()):
        sentence = f"None of the {counted(len(documents), 'document')} stored below '{before}' is in this folder"
        raise InvalidInputError(f"{sentence}: is it another one of that name? --allow-empty deletes them")
    return sum(uploader.delete(document, outcome.collection) for document in documents)


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
