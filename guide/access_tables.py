"""Make the tables of `docs/access.md` of the table of access.

    .venv/bin/python -m guide.access_tables

writes them into the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from schemas.access.table import ROUTES, TOOLS, Access

PAGE = Path(__file__).parents[1] / "docs" / "access.md"
ROUTES_HEAD = "| Route | Asks for | Names its collection in |\n|---|---|---|\n"
TOOLS_HEAD = "| Tool | Asks for | Names its collection in |\n|---|---|---|\n"


def with_tables(page: str) -> str:
    """Return the page with its tables made anew."""
    before, _, rest = page.partition(ROUTES_HEAD)
    _, heading, rest = rest.partition("\n## What each tool asks for\n")
    between, _, _ = rest.partition(TOOLS_HEAD)
    return f"{before}{ROUTES_HEAD}{_rows(ROUTES)}{heading}{between}{TOOLS_HEAD}{_rows(TOOLS)}"


def _rows(table: Mapping[str, Access]) -> str:
    return "".join(f"| `{name}` | {row.needs}{_also(row)} | {row.names} |\n" for name, row in table.items())


def _also(row: Access) -> str:
    return "" if row.also is None else ", and {} {}".format(*row.also)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
