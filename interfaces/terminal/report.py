"""How the service is, in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.style import Style
from rich.text import Text

from interfaces.terminal.screen import Screen, in_one_line
from interfaces.terminal.services import RunningService
from schemas.access.callers import Scope
from schemas.errors import RagError, ScopeMissingError
from schemas.plurals import counted

COLOURS = {"healthy": "green", "degraded": "yellow", "unhealthy": "red"}
OPEN_JOBS = ("running", "queued")

Json = Mapping[str, Any]


def report_of(service: RunningService) -> dict[str, Any]:
    """Return `{service, health, watchers, jobs}`; watchers and jobs are None where the service shows none."""
    return {
        "service": service.address,
        "health": service.health(),
        "watchers": _shown(_watchers, service),
        "jobs": _shown(_open_jobs, service),
    }


def show_report(screen: Screen, report: Json) -> None:
    health = report["health"]
    for name, said in _lines(report):
        line = Text(f"{name:<12}")
        style = Style(color=COLOURS.get(health["status"])) if name == "service" else Style()
        screen.show(line.append(in_one_line(said), style))


def _lines(report: Json) -> Iterator[tuple[str, str]]:
    health = report["health"]
    yield "service", f"{health['status']}, version {health['version']}, at {report['service']}"
    if "engine" in health:
        yield from _parts(report)
    else:
        yield "more", f"for keys with the scope {Scope.ADMIN}"
    for each in report["watchers"] or ():
        failed = f", {each['failed']} failed" if each["failed"] else ""
        told = f"{counted(each['files'], 'file')}, {each['stored']} stored{failed}"
        yield "watcher", f"{each['name']}: {each['state']}, {told}, into {each['collection']}{_because(each['reason'])}"
    for each in report["jobs"] or ():
        done = each["progress"]
        yield "job", f"{each['id']}: {each['status']}, {done['files_done']} of {counted(done['files'], 'file')} done"


def _parts(report: Json) -> Iterator[tuple[str, str]]:
    """Yield the lines of what administrators alone are told."""
    health = report["health"]
    yield "engine", _engine(health["engine"])
    catalog = health["catalog"]
    yield "catalogue", f"{catalog['kind']}, {catalog['status']}{_because(catalog.get('message'))}"
    yield "collections", str(health["collections_count"])
    for name in ("embedding", "chat"):
        if name in health:
            yield f"{name}", _model(health[name])
    yield from _indexes(report)
    disk = health["disk"]
    floor = f"writes stop below {disk['floor_mb']:,} MB{_because(disk.get('message'))}"
    yield "disk", f"{disk['free_mb']:,.0f} MB free; {floor}"


def _engine(engine: Json) -> str:
    restarts = f", {counted(engine['restarts'], 'restart')}" if engine.get("restarts") else ""
    return f"{engine['status']}{restarts}{_because(engine.get('message'))}"


def _model(model: Json) -> str:
    provider = f" ({model['provider']})" if "provider" in model else ""
    return f"{model['status']}{provider}{_because(model.get('error'))}"


def _indexes(report: Json) -> Iterator[tuple[str, str]]:
    health = report["health"]
    indexes = health["indexes"]
    if indexes is not None:
        lag = health["index_lag"]
        waiting = f"{counted(lag, 'write')} waiting" if lag else "no write waits"
        yield "indexes", f"{indexes['ready']} ready, {waiting}"
        for each in indexes["rebuilding"]:
            yield "index", f"{each['collection']} is being rebuilt{_because(each.get('reason'))}"
        for each in indexes["faulty"]:
            yield "index", f"{each['collection']} is faulty{_because(each['fault'])}"


def _watchers(service: RunningService) -> list[Json]:
    found: list[Json] = json.loads(service.get("/api/watchers"))["watchers"]
    return found


def _open_jobs(service: RunningService) -> list[Json]:
    return [each for status in OPEN_JOBS for each in json.loads(service.get("/api/jobs", status=status))["jobs"]]


def _shown(look: Callable[[RunningService], list[Json]], service: RunningService) -> list[Json] | None:
    """Return what a look finds, None when the service does not show it to this key."""
    try:
        return look(service)
    except RagError as error:
        if error.code != ScopeMissingError.code:
            raise
        return None


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""
