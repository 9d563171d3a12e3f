"""The gauges of one service. What may keep a reader waiting is read in the background."""

from __future__ import annotations

import os
from collections.abc import Iterator

from schemas.errors import RagError
from schemas.release import release
from schemas.settings import HOSTED, WrapperSettings
from schemas.storage.health import ENGINE_READY, EngineHealth
from wrapper.background import Look, Looks
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.index_state.observing import observe
from wrapper.engine.keeper.state import EngineStateReader
from wrapper.engine_choice import release_of_own_engine
from wrapper.free_disk import free_disk_mb
from wrapper.observing import gauges
from wrapper.observing.gauges import Gauge, Source
from wrapper.observing.processes import of_processes
from wrapper.observing.sizes import stored_bytes
from wrapper.start_checks import catalogue_path

GAUGE_SECONDS = 2.0
"""The interval of the looks at what the catalogue knows."""
SIZE_SECONDS = 60.0
"""The interval of the looks at sizes on the disk, which read whole folders."""


class ServiceGauges:
    """The gauges of this process's service, with those that other parts add."""

    def __init__(self, looks: Looks, settings: WrapperSettings, catalog: Catalog, state: EngineStateReader) -> None:
        self._looks = looks
        self._settings = settings
        self._catalog = catalog
        self._state = state
        self._known: dict[str, Look[list[Gauge]]] = {}
        self.add("catalogue", self._of_catalogue)
        self.add("sizes", self._of_sizes, every_seconds=SIZE_SECONDS)

    def add(self, name: str, source: Source, *, every_seconds: float = GAUGE_SECONDS) -> None:
        """Read `source` in the background from now on. While it raises RagError, its gauges are not there."""

        def read() -> list[Gauge]:
            try:
                return list(source())
            except RagError:
                return []

        self._known[name] = self._looks.add(
            f"gauges of {name}", read, [], every_seconds=every_seconds, limit_seconds=every_seconds
        )

    def all(self, engine: EngineHealth, *, catalogue_works: bool) -> Iterator[Gauge]:
        """Yield all gauges without waiting, and how long ago those were read that are read in the background."""
        state = None if self._settings.chroma_url else self._state.read()
        chroma = "remote" if state is None else release_of_own_engine().removeprefix("chromadb ")
        yield from gauges.of_build(version=release(), chroma=chroma)
        yield from gauges.of_engine(engine, is_ready=engine.status == ENGINE_READY)
        yield Gauge("rag_catalogue_up", "1 when the catalogue answers", float(catalogue_works))
        for name, look in self._known.items():
            seen = look.last()
            yield from seen.found
            yield Gauge("rag_gauges_age_seconds", "Time since gauges were read", seen.age_seconds, {"gauges": name})
        master = os.getppid() if os.environ.get(HOSTED) == str(os.getppid()) else None
        keeper, chroma_pid = (None, None) if state is None else (state.keeper_pid, state.pid)
        yield from of_processes(master, keeper, chroma_pid)

    def _of_catalogue(self) -> Iterator[Gauge]:
        free_mb = free_disk_mb(self._settings.data_dir)
        yield from gauges.of_disk(free_mb=free_mb, floor_mb=self._settings.disk_floor_mb)
        with self._catalog.read() as transaction:
            seen = observe(transaction)
        yield from gauges.of_catalogue(seen)

    def _of_sizes(self) -> Iterator[Gauge]:
        sizes = stored_bytes(self._settings.data_dir, catalogue_path(self._settings), self._catalog)
        yield from gauges.of_sizes(sizes)
