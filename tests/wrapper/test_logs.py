import logging
import subprocess
import sys

import pytest

from schemas.access.credentials_in_text import without_credentials
from wrapper.logs import MAX_LINE_CHARACTERS, CleanFormatter

PROGRAM = """
import structlog
from wrapper.logs import configure
configure("info", "{style}")
def fail(key):
    1 / 0
try:
    fail("planted")
except ZeroDivisionError:
    structlog.get_logger().exception("it failed")
"""


@pytest.mark.parametrize("style", ["console", "json"])
def test_a_traceback_shows_no_values_of_variables(style):
    program = PROGRAM.replace("{style}", style)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "ZeroDivisionError" in ended.stderr
    assert "planted" not in ended.stderr


CLEANED = """
import structlog
from wrapper.logs import clean_lines, configure
configure("info", "{style}")
log = structlog.get_logger()
log.info("used before")
end = clean_lines(lambda line: line.replace("planted", "***"))
try:
    raise ValueError("about planted")
except ValueError:
    log.exception("said planted", key="planted")
end()
log.info("afterwards: planted")
"""


@pytest.mark.parametrize("style", ["console", "json"])
def test_every_line_is_cleaned_with_its_traceback_until_told_otherwise(style):
    program = CLEANED.replace("{style}", style)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before, _, afterwards = ended.stderr.partition("afterwards")
    assert "about ***" in before
    assert ("planted" in before, "planted" in afterwards) == (False, True)


KEY = "rw_ab12cd34_" + "s" * 43
WRITTEN = """
import structlog
from wrapper.logs import configure
configure("info", "{style}")
try:
    raise ValueError("about {key}")
except ValueError:
    structlog.get_logger().exception("request", path="/collections/{key}")
"""


@pytest.mark.parametrize("style", ["console", "json"])
def test_no_line_has_a_key(style):
    program = WRITTEN.replace("{style}", style).replace("{key}", KEY)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "/collections/rw_ab12cd34_…" in ended.stderr
    assert "s" * 43 not in ended.stderr


def test_a_line_of_a_library_is_cut_to_its_length_and_no_key_is_cut_in_two():
    said = "x" * (MAX_LINE_CHARACTERS - 20) + KEY + "y" * MAX_LINE_CHARACTERS
    record = logging.LogRecord("library", logging.WARNING, "", 0, said, (), None)
    line = CleanFormatter(without_credentials, logging.Formatter()).format(record)
    assert len(line) <= MAX_LINE_CHARACTERS
    assert "ss" not in line
