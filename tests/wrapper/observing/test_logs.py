import json
import re
import subprocess
import sys

import pytest

from wrapper.observing.captured_lines import MAX_EVENT_CHARACTERS

KEY = "rw_ab12cd34_" + "s" * 43
TRACEBACKS = """
import structlog
from wrapper.observing.logs import clean_lines, configure
configure("info", "{style}")
log = structlog.get_logger()
def fail(key):
    1 / 0
try:
    fail("a variable")
except ZeroDivisionError:
    log.exception("it failed")
try:
    raise ValueError("about {key}")
except ValueError:
    log.exception("request", path="/collections/{key}")
end = clean_lines(lambda line: line.replace("planted", "***"))
try:
    raise ValueError("about planted")
except ValueError:
    log.exception("said planted", key="planted")
end()
log.info("afterwards: planted")
"""


@pytest.mark.parametrize("style", ["console", "json"])
def test_a_traceback_shows_no_values_of_variables_no_key_and_nothing_that_is_cleaned_away(style):
    """With every other line, until told otherwise."""
    program = TRACEBACKS.replace("{style}", style).replace("{key}", KEY)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "ZeroDivisionError" in ended.stderr
    assert "a variable" not in ended.stderr
    assert "/collections/rw_ab12cd34_…" in ended.stderr
    assert "s" * 43 not in ended.stderr
    before, _, afterwards = ended.stderr.partition("afterwards")
    assert "about ***" in before
    assert ("planted" in before, "planted" in afterwards) == (False, True)


QUOTED = r"""
import logging, sys, threading, warnings
from wrapper.observing.captured_lines import capture
from wrapper.observing.logs import configure
configure("info", "{style}")
capture()
logging.getLogger("library").warning("it said %s", "x" * 8_190 + "{key}" + "y" * 40_000)
warnings.warn("an old way")
print("printed", end="")
print(" at once\n\nand again")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
class Broken:
    def __del__(self):
        raise ValueError("nowhere")
Broken()
sys.stderr.write("a half line")
logging.getLogger("library").info("not wanted")
logging.getLogger("library").error("lone \\udcff")
raise LookupError("the end of {key}")
"""


def test_everything_that_a_process_writes_is_a_line_of_the_log():
    program = QUOTED.replace("{style}", "json").replace("{key}", KEY)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "")
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert all(list(line)[:4] == ["timestamp", "level", "logger", "event"] for line in lines)
    said = {line["event"][:20]: line for line in lines}
    assert said["it said " + "x" * 12]["logger"] == "library"
    assert len(said["it said " + "x" * 12]["event"]) <= MAX_EVENT_CHARACTERS
    assert any("an old way" in line["event"] and line["logger"] == "py.warnings" for line in lines)
    assert said["printed at once"]["logger"] == said["and again"]["logger"] == "stdout"
    assert "ZeroDivisionError" in said["an exception ended a thread"[:20]]["exception"]
    assert any("nowhere" in line.get("exception", "") for line in lines)
    assert "LookupError" in lines[-1]["exception"]
    assert lines[-1]["level"] == "critical"
    assert "not wanted" not in ended.stderr
    assert "ss" not in ended.stderr.replace("process", "").replace("class", "")


def test_on_a_terminal_all_lines_read_alike():
    program = QUOTED.replace("{style}", "console").replace("{key}", KEY)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    begin = re.compile(r"(\x1b\[\d+m)*\d{4}-\d\d-\d\dT[\d:.]+Z")
    events = [line for line in ended.stderr.splitlines() if begin.match(line)]
    assert sum("[" in line and "library" in line for line in events) == 2
    assert any("printed at once" in line for line in events)
    assert "the end of rw_ab12cd34_…" in ended.stderr
