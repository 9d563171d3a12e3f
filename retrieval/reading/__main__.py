"""`python -m retrieval.reading`: write the table of kinds in docs/reading.md anew."""

from pathlib import Path

from retrieval.reading.kinds import kinds_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reading.md"
above, heading, rest = PAGE.read_text().partition("## Kinds\n\n")
below = rest.partition("\n\n")[2]
PAGE.write_text(f"{above}{heading}{kinds_table()}\n{below}")
