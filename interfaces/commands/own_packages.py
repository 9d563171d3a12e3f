"""Whether the project's packages are the ones that Python finds: their names are those of many people's own folders.

Imports nothing of the other packages, which may be hidden.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("schemas", "wrapper", "providers", "registry", "retrieval")


def hidden() -> list[str]:
    """Return a sentence for each package that another of the same name hides, with the file that does."""
    sentences = []
    for name in PACKAGES:
        spec = find_spec(name)
        # A folder without an __init__.py, which has no origin, hides nothing.
        if spec is None or spec.origin is None:
            continue
        found = Path(spec.origin).resolve()
        if found.parent != ROOT / name:
            folder = found.parent.parent if spec.submodule_search_locations else found.parent
            sentences.append(
                f"{found} hides the package '{name}' of rag-wrapper: "
                f"take {folder} off PYTHONPATH, or give that package another name"
            )
    return sentences
