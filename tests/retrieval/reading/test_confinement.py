"""The process that parses: what it may not do, what becomes of it, and what it costs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from retrieval.reading import DocumentReader, ReadingLimits, UnreadableError, kind_named
from tests.support.documents import samples as made
from tests.support.live import eventually

PROJECT = Path(__file__).parents[3]
CONFINED = """
import ctypes, os, socket, subprocess, sys
from retrieval.parsing.confinement import confine
libc = ctypes.CDLL(None, use_errno=True)
confine({seconds}, 512)
for statement in {statements!r}:
    try:
        exec(statement)
    except (PermissionError, OSError, MemoryError) as error:
        print(type(error).__name__)
    else:
        print("done")
"""


def confined(*statements, seconds=5):
    """Return what becomes of statements in a confined process: for each a line, "done" or the name of its error."""
    code = CONFINED.format(statements=statements, seconds=seconds)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PROJECT)
    return done.stdout.splitlines() or [f"signal {-done.returncode}"]


STATEMENTS = (
    "open('/etc/passwd')",
    f"open({str(PROJECT / 'planted')!r}, 'w')",
    f"open({str(PROJECT)!r} + '/retrieval/../../etc/passwd')",
    "os.open('/tmp', os.O_RDWR | os.O_TMPFILE)",
    "socket.socket()",
    "socket.getaddrinfo('example.org', 80)",
    "subprocess.run(['true'])",
    "os.system('true')",
    "os.fork()",
    "os.execv('/bin/true', ['true'])",
    "os.remove('/tmp/nothing')",
    "os.mkdir('/tmp/planted')",
    "os.listdir('/etc')",
    "os.kill(os.getppid(), 0)",
)
CALLS = (
    "socket(2, 1, 0)",
    "connect(0, 0, 0)",
    "fork()",
    "execv(b'/bin/true', None)",
    "unlink(b'/tmp/nothing')",
    "rename(b'/tmp/nothing', b'/tmp/other')",
    "mkdir(b'/tmp/planted', 511)",
    "symlink(b'/etc', b'/tmp/planted')",
    "truncate(b'/tmp/nothing', 0)",
    "chmod(b'/tmp/nothing', 0)",
    "kill(os.getppid(), 0)",
    "ptrace(16, os.getppid(), 0, 0)",
    "syscall(425, 1, None)",
)
"""The last is io_uring, which is a way around all others."""


@pytest.mark.slow
def test_a_confined_process_may_do_none_of_it_and_its_memory_and_computing_are_bounded():
    outcomes = confined(*STATEMENTS)
    assert dict(zip(STATEMENTS, outcomes, strict=True)) == dict.fromkeys(STATEMENTS, "PermissionError")
    outcomes = confined(*(f"print(libc.{call}, ctypes.get_errno()); raise MemoryError" for call in CALLS))
    assert dict(zip(CALLS, outcomes[::2], strict=True)) == dict.fromkeys(CALLS, "-1 1")
    assert confined("bytearray(1 << 30)", "import xml.dom.minidom") == ["MemoryError", "done"]
    assert confined("while True: pass", seconds=1)[0] in (f"signal {signal.SIGXCPU}", f"signal {signal.SIGKILL}")


@pytest.fixture
def reader():
    with DocumentReader() as reader:
        yield reader


def read(reader):
    return reader.read(made.CSV, kind_named("csv"), name="a.csv").text


def pid_of(reader):
    return reader._process._process.pid


def test_one_process_reads_many_files_is_started_again_knows_no_environment_and_ends_with_its_reader(
    reader, monkeypatch
):
    monkeypatch.setenv("RAG_CHAT_API_KEY", "secret")
    read(reader)
    killed = pid_of(reader)
    os.kill(killed, 9)
    assert read(reader) == made.PIPE_TABLE + "\n"
    pid = pid_of(reader)
    read(reader)
    assert pid_of(reader) == pid != killed
    assert b"secret" not in Path(f"/proc/{pid}/environ").read_bytes()
    process = reader._process._process
    reader.close()
    assert process.returncode is not None
    assert read(reader) == made.PIPE_TABLE + "\n"


@pytest.mark.slow
def test_the_process_ends_with_whoever_started_it():
    script = (
        "import os, sys\nfrom retrieval.reading import DocumentReader, kind_named\nreader = DocumentReader()\n"
        "reader.read(b'a,b', kind_named('csv'), name='a')\nprint(reader._process._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=PROJECT)
    eventually(lambda: not Path(f"/proc/{done.stdout.strip()}").exists())


def test_a_fork_of_the_service_has_a_process_of_its_own(reader):
    read(reader)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if read(reader) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert read(reader) == made.PIPE_TABLE + "\n"


@pytest.mark.slow
def test_without_the_extra_other_kinds_are_read(tmp_path, monkeypatch):
    """GIVEN a Python without the parsers' libraries WHEN files are read THEN the error says what to install."""
    for name in ("lxml", "pypdfium2", "mammoth", "python_calamine", "docutils"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not installed')")
    monkeypatch.setattr("retrieval.reading.parsing_process._ROOT", f"{tmp_path}:{PROJECT}")
    with DocumentReader(ReadingLimits()) as reader:
        for kind, (name, content) in made.samples().items():
            if kind_named(kind).needs_formats:
                with pytest.raises(UnreadableError, match=r"rag-wrapper\[formats\]") as caught:
                    reader.read(content, kind_named(kind), name=name)
                assert caught.value.code == "unsupported_kind"
            else:
                assert reader.read(content, kind_named(kind), name=name).text
