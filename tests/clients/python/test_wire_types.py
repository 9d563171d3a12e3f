"""The types of the client's answers are those that openapi.yaml describes now."""

import runpy
from pathlib import Path

PROJECT = Path(__file__).parents[3]


def test_the_types_are_made_from_the_description():
    written = runpy.run_path(str(PROJECT / "clients/python/wire_types.py"))["written"]()
    stale = [path.name for path, text in written.items() if not path.is_file() or path.read_text() != text]
    assert stale == [], "run: .venv/bin/python clients/python/wire_types.py"
    assert {path.name for path in next(iter(written)).parent.glob("*.py")} == {path.name for path in written}
