"""The environment of a process that a test starts by itself."""

import os


def environ(**settings: object) -> dict[str, str]:
    """Return the environment of the tests without settings of the service, and with these: RAG_ variables in lower
    case."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    return kept | {f"RAG_{name.upper()}": str(value) for name, value in settings.items()}
