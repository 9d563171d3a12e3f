"""Files that are broken, locked or hostile: one sentence each, nothing leaves the process, and the next file is read. The
process that parses: what it may not do, what becomes of it, and what it costs."""

import os
import platform
import random
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from retrieval.parsing import child
from retrieval.parsing.confinement import lacking
from retrieval.reading import DocumentReader, Parsed, ReadingLimits, UnreadableError, kind_named
from schemas.metadata import check_metadata
from tests.durability.processes import alive
from tests.support.documents import hostile
from tests.support.documents import samples as made
from tests.support.documents.hostile import LAUGHS, MANIFEST, OLE, bomb, changed
from tests.support.documents.samples import zipped
from tests.support.live import eventually

SAMPLES = made.samples()
OUTSIDE = hostile.outside("file:///etc/passwd")
TYPESET = [kind for kind in SAMPLES if kind not in ("code", "text", "markdown")]
LIMITS = ReadingLimits(seconds=20, memory_mb=512, output_mb=2)


@pytest.fixture(scope="module")
def reader():
    with closing(DocumentReader(LIMITS)) as reader:
        yield reader


def refusal(reader, content, kind):
    """Return the code and message with which a file is refused; the next file is read."""
    with pytest.raises(UnreadableError) as caught:
        reader.read(content, kind_named(kind), name=f"/secret/place/a.{kind}")
    assert "\n" not in caught.value.message
    assert "/" not in caught.value.message
    assert len(caught.value.message) < 200
    assert reader.read(made.CSV, kind_named("csv"), name="a.csv").text == made.PIPE_TABLE + "\n"
    return caught.value.code, caught.value.message


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("pdf", made.pdf(1, password="secret")),
        ("docx", OLE + "EncryptedPackage".encode("utf-16-le")),
        ("xlsx", OLE + "EncryptedPackage".encode("utf-16-le")),
        ("odt", changed(made.odt_file(), {"META-INF/manifest.xml": MANIFEST})),
        ("ods", changed(made.ods_file(), {"META-INF/manifest.xml": MANIFEST})),
        (
            "epub",
            changed(
                made.epub_file(), {"META-INF/encryption.xml": '<e><CipherReference xmlns="x" URI="OPS/one.xhtml"/></e>'}
            ),
        ),
    ],
)
def test_what_is_locked_is_encrypted(reader, kind, content):
    assert refusal(reader, content, kind) == ("encrypted", "is encrypted")


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        *((kind, content) for kind in TYPESET for content in (b"", b" \n\t")),
        ("pdf", made.pdf(2, text=False)),
        ("html", b"<html><head><title>Only</title></head><body><nav>Menu</nav><script>x</script></body></html>"),
        ("html", b"<!-- nothing -->"),
        ("ipynb", b'{"cells": []}'),
        ("markdown", b"---\ntitle: Only a title\n---\n"),
        ("csv", b";;\n;;\n"),
    ],
)
def test_a_file_without_text_is_empty(reader, kind, content):
    code, message = refusal(reader, content, kind)
    assert (code, "text layer" in message) == ("empty", kind == "pdf" and content.startswith(b"%PDF"))


@pytest.mark.parametrize("kind", ["docx", "pptx", "xlsx", "odt", "ods", "odp", "epub"])
def test_a_bomb_is_too_large_before_it_is_unpacked(reader, kind):
    assert refusal(reader, bomb(), kind)[0] == "too_large"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["xlsx", "pdf", "docx", "odt", "pptx"])
def test_what_needs_too_much_memory_is_ended(kind):
    """A text that two thousand cells share, a PDF without end, and XML that does not fit."""
    text = f'<sst xmlns="{hostile.SHEETS}"><si><t>{"A" * 100_000}</t></si></sst>'
    sheet = hostile.SHEET.format('<row><c t="s"><v>0</v></c></row>' * 2_000)
    content = {
        "xlsx": lambda: changed(made.xlsx_file(), {"xl/sharedStrings.xml": text, "xl/worksheets/sheet1.xml": sheet}),
        "pdf": hostile.endless_pdf,
    }.get(kind, lambda: hostile.long_text(kind))()
    with closing(DocumentReader(ReadingLimits(seconds=20, memory_mb=256))) as reader:
        assert refusal(reader, content, kind)[0] == "too_much_memory"


@pytest.mark.slow
@pytest.mark.parametrize("name", hostile.ANNOTATED)
def test_of_pages_with_too_many_fields_or_lines_the_words_are_read_in_little_time(reader, name):
    document = reader.read(hostile.ANNOTATED[name](), kind_named("pdf"), name="a.pdf")
    assert "word" in document.text
    assert bool(document.warnings) == (name in ("very many fields", "very many options"))


@pytest.mark.slow
def test_fields_that_hold_each_other_take_no_longer_than_a_file_may():
    with closing(DocumentReader(ReadingLimits(seconds=1))) as reader:
        assert refusal(reader, hostile.FIELDS_WITHIN_EACH_OTHER, "pdf")[0] == "too_slow"


@pytest.mark.parametrize("declared", [LAUGHS, OUTSIDE])
@pytest.mark.parametrize("kind", [*hostile.XML_PARTS, "html"])
def test_entities_are_neither_expanded_nor_fetched(reader, kind, declared):
    assert refusal(reader, hostile.with_entities(kind, declared), kind)[0] == "unreadable"


def test_of_a_page_the_words_are_left_and_of_a_book_the_chapters_without_entities_and_damage(reader):
    page = b"<!DOCTYPE html [<!ATTLIST p of CDATA #IMPLIED>]><html><body><p>Words &c; after</p></body></html>"
    assert reader.read(page, kind_named("html"), name="a").text == "Words &c; after\n"
    page = (
        b"<p>Words</p><svg><script>alert(1)</script><text>drawn</text></svg><img src=x onerror=alert(2) alt='a chart'>"
    )
    assert reader.read(page, kind_named("html"), name="a").text == "Words\n\na chart\n"
    chapter = hostile.with_entities("html", LAUGHS)
    broken = changed(made.epub_file(), {"OPS/one.xhtml": "Before"}).replace(
        crc32(b"Before").to_bytes(4, "little"), b"0000"
    )
    for content in (changed(made.epub_file(), {"OPS/one.xhtml": chapter}), broken):
        book = reader.read(content, kind_named("epub"), name="a")
        assert "Before" not in book.text
        assert book.warnings == ["Chapters that are missing or cannot be read: 1"]


@pytest.mark.parametrize("kind", ["pdf", "docx", "pptx", "xlsx", "odt", "epub", "ipynb", "mbox"])
def test_a_file_that_is_not_what_its_name_says_is_unreadable(reader, kind):
    assert refusal(reader, b"Once upon a time there was a text.", kind)[0] == "unreadable"
    other = "odt" if kind == "docx" else "docx"
    assert refusal(reader, SAMPLES[other][1], kind)[0] == "unreadable"


@pytest.mark.parametrize("kind", [kind for kind in SAMPLES if kind != "pdf"])
def test_a_pdf_is_no_file_of_another_kind_also_where_it_is_all_ascii(reader, kind):
    assert hostile.many_pages(1).isascii()
    assert refusal(reader, hostile.many_pages(1), kind) == ("unreadable", f"is a PDF, not {kind_named(kind).label}")
    if kind not in TYPESET:
        assert refusal(reader, made.pdf(), kind)[0] == "unreadable"


@pytest.mark.slow
def test_what_is_too_much_is_refused(reader):
    assert refusal(reader, hostile.many_pages(10_000), "pdf") == (
        "too_large",
        "has 10,000 pages; 5,000 are read at most",
    )
    assert refusal(reader, b"<p>" + b"word " * 500_000, "html")[0] == "too_large"
    assert refusal(reader, zipped({f"{number}.xml": "" for number in range(20_001)}), "epub") == (
        "too_large",
        "unpacks to 20,001 files of 0 bytes in all; at most 20,000 files of 536,870,912 bytes in all are read",
    )


@pytest.mark.slow
def test_a_file_larger_than_allowed_is_too_large_and_one_that_takes_too_long_ended():
    slow = b"*a* **b** ``c``\n\n" * 50_000  # docutils takes minutes
    with closing(DocumentReader(ReadingLimits(seconds=1, seconds_per_mb=0))) as reader:
        assert refusal(reader, slow, "rst")[0] == "too_slow"
    with closing(DocumentReader(ReadingLimits(input_mb=1))) as reader:
        assert refusal(reader, b"x" * (1024 * 1024 + 1), "text")[0] == "too_large"


def test_depth_is_no_fault_names_in_archives_are_only_names_and_what_is_read_can_be_stored(reader):
    page = b"<div>" * 1_000 + b"deep" + b"</div>" * 1_000
    assert reader.read(page, kind_named("html"), name="a").text.strip() == "deep"
    too_deep = b"<p>Words</p>" + b"<div>" * 5_000 + b"deep" + b"</div>" * 5_000
    assert refusal(reader, too_deep, "html") == ("unreadable", "is nested too deeply")
    assert refusal(reader, b"[" * 100_000, "ipynb")[0] == "unreadable"
    assert refusal(reader, b'{"text": "x"}', "jsonl")[0] == "unsupported_kind"
    content = changed(made.docx_file(), {"../../../tmp/evil.txt": "out", "word/vbaProject.bin": b"\0macro"})
    text = reader.read(content, kind_named("docx"), name="a.docx").text
    assert text == reader.read(made.docx_file(), kind_named("docx"), name="a.docx").text
    page = (
        b"<meta charset=utf-8>"
        + "<p>a\0b\ud800c\x0bd</p>".encode("utf-8", "surrogatepass")
        + b"<p>&#0;&#xD800;&#x8;</p>"
    )
    text = reader.read(page, kind_named("html"), name="a").text
    text.encode()
    assert "\0" not in text


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLES)
def test_a_damaged_file_is_read_or_refused_and_the_next_one_is_read(reader, kind):
    generator = random.Random(kind)
    _, content = SAMPLES[kind]
    for _ in range(6):
        damaged = bytearray(content)
        for _ in range(generator.randint(1, 12)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        outcome(reader, bytes(damaged[: generator.randint(len(damaged) // 2, len(damaged))]), kind)
    assert reader.read(content, kind_named(kind), name="a").text


def outcome(reader, content, kind):
    """Read anything: it ends in a document that can be stored, or in a refusal."""
    try:
        document = reader.read(content, kind_named(kind), name="a")
    except UnreadableError as error:
        assert error.message
        assert "\n" not in error.message
        return
    assert isinstance(document, Parsed)
    assert document.text.strip()
    document.text.encode()
    check_metadata(document.metadata)
    lines = [line for line, _ in document.marks]
    assert lines == sorted(lines)
    assert all(1 <= line <= document.text.count("\n") + 1 for line in lines)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(SAMPLES)),
    content=st.binary(max_size=400) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")),
)
@example(kind="mbox", content=b"From \n\n")
@example(kind="email", content=b"Subject: =?utf-8?b?/?=\nContent-Type: text/plain; charset=\xff\n\nx")
@example(kind="html", content=b"<table><tr><td rowspan=99999999 colspan=0>x<td>y")
@example(kind="rst", content=b".. |a| replace:: |a|\n\n|a|_ `x`__ [#]_ *")
@example(kind="csv", content=b'"')
@example(kind="markdown", content=b"---\na: !!timestamp 9999-99-99\n---\nx")
def test_any_bytes_end_in_a_document_or_a_refusal(reader, kind, content):
    outcome(reader, content, kind)


PROJECT = Path(__file__).parents[3]
MACHINE = platform.machine()
CONFINED = """
import ctypes, os, socket, subprocess, sys
from retrieval.parsing.confinement import confine
libc = ctypes.CDLL(None, use_errno=True)
{before}
confine({seconds}, 1024, {machine!r})
for statement in {statements!r}:
    try:
        exec(statement)
    except (PermissionError, OSError, MemoryError) as error:
        print(type(error).__name__)
    else:
        print("done")
"""


def confined(*statements, seconds=5, before="", machine=MACHINE):
    """Return what becomes of statements in a confined process: for each a line, "done" or the name of its error."""
    code = CONFINED.format(statements=statements, seconds=seconds, before=before, machine=machine)
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
    assert confined("bytearray(1 << 31)", "import xml.dom.minidom") == ["MemoryError", "done"]
    lower = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))\n"
    assert confined("bytearray(1 << 29)", before=lower) == ["MemoryError"]
    assert confined("while True: pass", seconds=1)[0] in (f"signal {signal.SIGXCPU}", f"signal {signal.SIGKILL}")


FILTERED = f"""
from interfaces.start_checks import look_before_start
from retrieval.parsing import confinement as c
libc.prctl(38, 1, 0, 0, 0)
c._refuse_calls(libc, c._REFUSED_CALLS[{MACHINE!r}][0], [{157 if MACHINE == "x86_64" else 167}])
print(look_before_start().warnings)
"""
"""Has the kernel refuse what a filter of system calls is set by, as some containers do."""


@pytest.mark.slow
def test_a_kernel_that_takes_no_filter_is_told_of_and_the_other_limits_hold():
    statements = ("print(libc.kill(os.getppid(), 0)); raise MemoryError", "open('/etc/passwd')")
    left = ["0", "MemoryError", "PermissionError"]
    assert confined(*statements, machine="riscv64") == left
    warned, *outcomes = confined(*statements, before=FILTERED)
    assert "is less confined than it should be: the kernel refuses it no system calls" in warned
    assert outcomes == left
    [sentence] = lacking("riscv64")
    assert "riscv64" in sentence
    assert lacking() == []


@pytest.fixture
def own_reader():
    with closing(DocumentReader()) as own_reader:
        yield own_reader


def read(own_reader):
    return own_reader.read(made.CSV, kind_named("csv"), name="a.csv").text


def pid_of(own_reader):
    return own_reader._processes[0].pid


def test_one_process_reads_many_files_is_started_again_knows_no_environment_and_ends_with_its_reader(
    own_reader, monkeypatch
):
    monkeypatch.setenv("RAG_CHAT_API_KEY", "secret")
    read(own_reader)
    killed = pid_of(own_reader)
    os.kill(killed, 9)
    assert read(own_reader) == made.PIPE_TABLE + "\n"
    pid = pid_of(own_reader)
    read(own_reader)
    assert pid_of(own_reader) == pid != killed
    assert b"secret" not in Path(f"/proc/{pid}/environ").read_bytes()
    own_reader.close()
    assert not alive(pid)
    with pytest.raises(UnreadableError, match="ended"):
        read(own_reader)


@pytest.mark.slow
def test_the_process_ends_with_whoever_started_it():
    script = (
        "import os, sys\nfrom retrieval.reading import DocumentReader, kind_named\nreader = DocumentReader()\n"
        "reader.read(b'a,b', kind_named('csv'), name='a')\nprint(reader._processes[0].pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=PROJECT)
    eventually(lambda: not alive(int(done.stdout)))


def test_nothing_is_said_of_a_file_whose_fork_somebody_else_ends():
    reader, writer = os.pipe()
    os.close(writer)
    with open(reader), subprocess.Popen(["sleep", "infinity"]) as fork:
        fork.kill()
        with pytest.raises(SystemExit):
            child._watch(fork.pid, reader, reader, child.Question("csv", 60, 1_000_000, 1))


def test_a_fork_of_the_service_has_a_process_of_its_own(own_reader):
    read(own_reader)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if read(own_reader) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert read(own_reader) == made.PIPE_TABLE + "\n"


@pytest.mark.slow
def test_without_the_extra_other_kinds_are_read(tmp_path, monkeypatch):
    """GIVEN a Python without the parsers' libraries WHEN files are read THEN the error says what to install."""
    for name in ("lxml", "pypdfium2", "docutils", "webencodings"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not installed')")
    monkeypatch.setattr("retrieval.reading.reader._ROOT", f"{tmp_path}:{PROJECT}")
    with closing(DocumentReader(ReadingLimits())) as own_reader:
        for kind, (name, content) in made.samples().items():
            if kind_named(kind).is_isolated and kind not in ("ipynb", "csv", "tsv", "subtitles"):
                with pytest.raises(UnreadableError, match=r"rag-wrapper\[formats\]") as caught:
                    own_reader.read(content, kind_named(kind), name=name)
                assert caught.value.code == "unsupported_kind"
            else:
                assert own_reader.read(content, kind_named(kind), name=name).text
