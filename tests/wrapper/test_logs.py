import subprocess
import sys

import pytest

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
