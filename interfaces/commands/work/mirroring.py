"""Mirrors: what `rag-wrapper mirror` does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from typing import NoReturn

import click

from interfaces.commands.options import printable
from interfaces.service_address import network_to
from interfaces.service_key import service_key
from providers.rag_wrapper.client import WrapperClient
from retrieval.mirroring import Mirror, SourceMissingError, Step
from retrieval.watching.pauses import Pauses
from schemas.errors import DiskFloorError, RagError, UnavailableError

SOURCE_KEY = "RAG_SOURCE_API_KEY"
WAIT_SECONDS = 30
"""How long the source is asked to wait for changes in one request."""


def mirror(source: str, collection: str, name: str | None, *, once: bool, url: str) -> None:
    """Keep a copy of a collection of the service at `source` in the service at `url`, or bring it up to date `once`."""
    network = network_to(url)
    key = service_key(url, network)
    source = source.rstrip("/")
    source_key = os.environ.get(SOURCE_KEY, "").strip() or None
    target = collection if name is None else name
    with (
        closing(WrapperClient.at(source, source_key, network=network_to(source))) as there,
        closing(WrapperClient.at(url, key, network=network)) as here,
        there.reading(),
        here.reading(),
    ):
        copy = Mirror(there, source, collection, here, target)
        if once:
            _catch_up(copy, target)
            return
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            _follow(copy, target)
        except KeyboardInterrupt:  # at whatever point: what was not recorded is done again the next time
            click.echo(f"{target}: stopped")


def _catch_up(copy: Mirror, name: str) -> None:
    done = Step(more=True)
    while done.more:
        done = _sum(done, copy.step())
    click.echo(_told(name, done))


def _follow(copy: Mirror, name: str, sleep: Callable[[float], None] = time.sleep) -> NoReturn:
    """Follow the source for good. What fails in passing is told once, and tried again after pauses."""
    pauses = Pauses()
    done, failure, is_first = Step(), "", True
    while True:
        try:
            done = _sum(done, copy.step(0 if is_first or done.more else WAIT_SECONDS))
        except RagError as error:
            if not _may_pass(error):
                raise
            if failure != error.message:
                failure = error.message
                click.echo(printable(f"{name}: {failure}: tried again"), err=True)
            sleep(pauses.next_seconds())
            continue
        pauses.reset()
        failure = ""
        if not done.more and (is_first or done.stored or done.deleted):
            click.echo(_told(name, done))
            done, is_first = Step(), False


def _may_pass(error: RagError) -> bool:
    # A RagError of no kind is a fault within a service.
    return isinstance(error, UnavailableError | DiskFloorError | SourceMissingError) or type(error) is RagError


def _sum(done: Step, step: Step) -> Step:
    return Step(
        done.stored + step.stored,
        done.deleted + step.deleted,
        done.unchanged + step.unchanged,
        step.revision or done.revision,
        step.more,
    )


def _told(name: str, done: Step) -> str:
    deeds = [f"{count} {word}" for word in ("stored", "deleted") if (count := getattr(done, word))]
    return f"{name}: {', '.join(deeds) or 'nothing changed'}: up to revision {done.revision}"


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
