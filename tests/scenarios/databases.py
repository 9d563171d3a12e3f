"""On which databases scenarios run: on SQLite, and where the SQL differs, on PostgreSQL too."""

import pytest

KINDS = ("sqlite", "postgresql")
ON_BOTH = pytest.mark.parametrize("app", KINDS, indirect=True, scope="session")
