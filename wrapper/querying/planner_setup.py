"""Builds what answers vector queries from the settings of the service."""

from __future__ import annotations

from schemas.settings import WrapperSettings
from wrapper.backups.places import CODES
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.held_documents import HeldDocuments
from wrapper.free_disk import FreeDisk
from wrapper.machine_memory import vectors_mb
from wrapper.querying.asked_vectors import AskedVectors
from wrapper.querying.code_files import CodeFiles
from wrapper.querying.held_vectors import HeldVectors
from wrapper.querying.planner import Planner, VectorIndex


def open_planner(
    settings: WrapperSettings,
    catalog: Catalog,
    index: VectorIndex,
    documents: HeldDocuments,
    asked: AskedVectors,
    free_disk: FreeDisk,
) -> tuple[Planner, HeldVectors]:
    """Return the planner, and the vectors that it holds, which are to be closed."""

    def has_room(size_bytes: int) -> bool:
        return free_disk() - size_bytes / 2**20 >= settings.disk_floor_mb

    most_bytes = vectors_mb(settings.memory_vectors_mb) << 20
    held = HeldVectors(most_bytes, catalog, CodeFiles(settings.data_dir / CODES, most_bytes, has_room))
    planner = Planner(
        catalog,
        index,
        held=held,
        exact_ms=settings.exact_ms,
        least_recall=settings.recall,
        documents=documents,
        asked=asked,
    )
    return planner, held
