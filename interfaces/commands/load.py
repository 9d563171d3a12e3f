"""`rag-wrapper load` and `delete`: bring files into the running service, and take documents out of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import click

from interfaces.asked_service import service_at
from interfaces.commands.options import MAX_NAMED, log_to_stderr, printable, progress_bar, show_lines, url_option

collection_option = click.option(
    "--collection", metavar="NAME", help="Collection of the documents.  [default: the one where the service is asked]"
)


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@collection_option
@url_option
@click.option(
    "--source-prefix",
    metavar="TEXT",
    help="Name in front of each source's path, instead of the folder's own; an empty one means none.",
)
@click.option("--follow-links", is_flag=True, help="Load what symbolic links lead to, even outside of the folder.")
@click.option("--prune", is_flag=True, help="Delete the documents of the folder whose files are no longer there.")
@click.option("--allow-empty", is_flag=True, help="With --prune: believe that the folder has no files.")
@click.option(
    "--verbose",
    is_flag=True,
    help=f"Name every file that is passed over or in error, not only the first {MAX_NAMED}.",
)
@click.pass_context
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
    """Load PATH, a file or a folder, into a collection of the running service, which reads, splits and embeds.

    Each file is one document, whose source is the name of its folder followed by its path; a JSONL line {id, title,
    text, metadata, embedding} is one, too, and a folder with corpus.jsonl is a BEIR data set. Loading again uploads
    only what changed.

    Exit code: 0 if everything is loaded, but for what is named as passed over; 1 if some files could not be loaded, 2
    if nothing could be done or the service failed.
    """
    from interfaces.commands.work.uploading import PASSED_OVER, Outcome, Uploader
    from retrieval.ingest.identity import stored_name
    from retrieval.ingest.walk import is_utf8, walk
    from schemas.contracts.jobs import FAILED
    from schemas.errors import InvalidInputError
    from schemas.names import check_collection_name

    def named(outcome: Outcome, word: str, mark: str = "") -> list[str]:
        return [f"{mark}{name}: {outcome.reasons[name]}" for name, became in outcome.became.items() if became == word]

    log_to_stderr(logging.WARNING)
    if collection is not None:
        check_collection_name(collection, field="collection")
    try:
        found = walk(path, follow_links=follow_links)
        folder = stored_name(found.folder if source_prefix is None else source_prefix)
        if prune and (path.is_file() or not folder):
            raise click.UsageError("--prune is for a folder whose documents have its name in front.")
        if not found.files and (prune or not found.errors) and not (prune and allow_empty):
            otherwise = "; --allow-empty deletes all that is stored of it" if prune else ""
            over = "".join(f"\n{each}" for each in found.passed_over[:MAX_NAMED])
            raise InvalidInputError(f"'{path}' contains no files that can be loaded{otherwise}{over}")
        before = f"{folder}/" if folder else ""
        files = {stored_name(f"{before}{each.path_below}"): each for each in found.files}
        if not all(map(is_utf8, (folder, *files))):
            raise InvalidInputError(f"'{path}' has a name that is not UTF-8")
        with service_at(url) as client, progress_bar() as show:
            uploader = Uploader(
                client,
                collection=collection,
                tell=lambda done, total, chunks: show(
                    completed=done, total=total or 1, description=f"files, {chunks} chunks stored"
                ),
                say=lambda sentence: click.echo(printable(sentence), err=True),
            )
            gone = uploader.gone(before, found, allow_empty=allow_empty) if prune else []
            outcome = uploader.bring(files)
            for each in found.passed_over:
                outcome.became[f"{before}{each.path}"] = PASSED_OVER
                outcome.reasons[f"{before}{each.path}"] = each.message
            for error in found.errors:
                name = f"{before}{error.path}"
                outcome.refuse(f"{name} (another)" if name in files else name, error.code, error.message)
            deleted = sum(uploader.delete(each, outcome.collection) for each in gone)
    except KeyboardInterrupt:
        click.echo("Interrupted: what was uploaded goes on in the service, and loading again does the rest", err=True)
        raise
    warnings = [f"{name}: {each}" for name, some in outcome.warnings.items() for each in some]
    for lines in (warnings, named(outcome, PASSED_OVER, "passed over: "), named(outcome, FAILED)):
        show_lines(lines, len(lines) if verbose else MAX_NAMED)
    click.echo(outcome.summary(deleted))
    # Of records, each warning is of a line that could not be stored.
    has_bad_lines = any(files[name].kind.is_records for name in outcome.warnings)
    ctx.exit(1 if outcome.count(FAILED) or has_bad_lines else 0)


@click.command()
@click.argument("sources", nargs=-1, metavar="[SOURCE]…")
@click.option("--below", "prefix", metavar="FOLDER", help="Delete all documents of a folder, as 'docs' or 'docs/old'.")
@collection_option
@url_option
@click.pass_context
def delete(ctx: click.Context, sources: Sequence[str], prefix: str | None, collection: str | None, url: str) -> None:
    """Delete the documents of these sources, as `documents` lists them: docs/guide.md.

    Exit code: 0 if all are deleted, 1 if some were not stored, 2 if nothing could be done.
    """
    from interfaces.commands.work.uploading import Uploader, below, stored_documents
    from retrieval.ingest.identity import stored_name
    from schemas.names import check_collection_name
    from schemas.plurals import counted

    if bool(sources) == (prefix is not None):
        raise click.UsageError("Say which documents: by SOURCE, or by --below PREFIX.")
    if prefix is not None and not stored_name(prefix):
        raise click.UsageError("--below needs the name of a folder.")
    if collection is not None:
        check_collection_name(collection, field="collection")
    with service_at(url) as client:
        uploader = Uploader(client, collection)
        target = uploader.target()
        names = [stored_name(each) for each in sources]
        where = below(f"{stored_name(prefix)}/") if prefix else {"source": {"$in": names}}
        found = stored_documents(client, target, where)
        deleted = sum(uploader.delete(document, target) for document in found)
    missing = [each for each in sources if stored_name(each) not in found.values()]
    for each in missing:
        click.echo(printable(f"{each}: is not stored"), err=True)
    click.echo(f"{target}: {counted(deleted, 'document')} deleted")
    ctx.exit(1 if missing or not found else 0)
