"""How the service is, in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.style import Style
from rich.text import Text

from interfaces.terminal.listing import is_missing_route
from interfaces.terminal.screen import Screen, in_one_line
from interfaces.terminal.services import AskedService
from schemas.errors import NotFoundError
from schemas.plurals import counted

COLOURS = {"healthy": "green", "degraded": "yellow", "unhealthy": "red"}
OPEN_JOBS = ("running", "queued")

Json = Mapping[str, Any]


def report_of(service: AskedService) -> dict[str, Any]:
    """Return `{service, runs, health, watchers, jobs}`; `jobs` is None where the service has none."""
    return {
        "service": service.address,
        "runs": service.runs,
        "health": service.health(),
        "watchers": json.loads(service.get("/api/watchers"))["watchers"],
        "jobs": _jobs(service),
    }


def show_report(screen: Screen, report: Json) -> None:
    health = report["health"]
    for name, said in _lines(report):
        line = Text(f"{name:<12}")
        style = Style(color=COLOURS.get(health["status"])) if name == "service" else Style()
        screen.show(line.append(in_one_line(said), style))


def _lines(report: Json) -> Iterator[tuple[str, str]]:
    health = report["health"]
    if report["runs"]:
        yield "service", f"{health['status']}, version {health['version']}, at {report['service']}"
        yield "engine", _engine(health["engine"])
    else:
        yield "service", f"none runs; this is the data directory {report['service']}"
    catalog = health["catalog"]
    yield "catalogue", f"{catalog['kind']}, {catalog['status']}{_because(catalog.get('message'))}"
    yield "collections", str(health["collections_count"])
    if report["runs"]:
        for name in ("embedding", "chat"):
            if name in health:
                yield f"{name}", _model(health[name])
    yield from _indexes(report)
    disk = health["disk"]
    yield "disk", f"{disk['free_mb']:,.0f} MB free; writes stop below {disk['floor_mb']:,} MB"
    for each in report["watchers"]:
        failed = f", {each['failed']} failed" if each["failed"] else ""
        told = f"{counted(each['files'], 'file')}, {each['pending']} pending{failed}"
        yield "watcher", f"{each['name']}: {each['state']}, {told}, into {each['collection']}{_because(each['reason'])}"
    for each in report["jobs"] or ():
        done = each["progress"]
        yield "job", f"{each['id']}: {each['status']}, {done['files_done']} of {counted(done['files'], 'file')} done"


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
        # Without a service there is no engine that would have them.
        ready = f"{indexes['ready']} ready, " if report["runs"] else ""
        yield "indexes", f"{ready}{waiting}"
        for each in indexes["rebuilding"]:
            yield "index", f"{each['collection']} is being rebuilt{_because(each.get('reason'))}"
        for each in indexes["faulty"]:
            yield "index", f"{each['collection']} is faulty{_because(each['fault'])}"


def _jobs(service: AskedService) -> list[Json] | None:
    """Return the jobs that are not done yet."""
    try:
        return [each for status in OPEN_JOBS for each in json.loads(service.get("/api/jobs", status=status))["jobs"]]
    except NotFoundError as error:
        if not is_missing_route(error):
            raise
        return None


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""
