"""The catalogue's database as the layers above the storage have it: below the disk floor nothing is added to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from schemas.shared_database import Place
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction

T = TypeVar("T")


class FlooredCatalog:
    """A catalogue whose writes ask first whether there is room, unless they are made `freely`.

    `check_room` raises DiskFloorError when there is none.
    """

    def __init__(self, catalog: Catalog, check_room: Callable[[], None]) -> None:
        self._catalog = catalog
        self._check_room = check_room

    @property
    def freely(self) -> Catalog:
        """The same database, for writes that free room, take rights away or only keep account."""
        return self._catalog

    @property
    def places(self) -> tuple[Place, ...]:
        return self._catalog.places

    def open_part(self, part: str, steps: Sequence[Sequence[str]], place: Place | None = None) -> None:
        self._catalog.open_part(part, steps, place)

    def read(self) -> AbstractContextManager[Transaction]:
        return self._catalog.read()

    def commit(self, operation: Callable[[Transaction], T]) -> T:
        """Do what `Catalog.commit` does. Raises DiskFloorError, too."""
        self._check_room()
        return self._catalog.commit(operation)

    def commit_quickly(self, operation: Callable[[Transaction], T], *, wait_seconds: float | None = None) -> T:
        """Do what `Catalog.commit_quickly` does. Raises DiskFloorError, too."""
        self._check_room()
        return self._catalog.commit_quickly(operation, wait_seconds=wait_seconds)
