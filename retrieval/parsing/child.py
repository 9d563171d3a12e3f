"""`python -m retrieval.parsing.child`: parses files, each in a fork of its own that is confined before it sees a byte.

It reads questions from its standard input and writes the answers to its standard output, one after the other
(`retrieval.workers.messages`). A question is a `Question` and the bytes of the file; an answer is `{"parsed": {…}}` or
`{"code": …, "message": …}`, and no bytes. This process itself never parses anything: it imports the parsers,
forks, and waits. It ends when its standard input does, and its fork with it.

Each page of a scan is a question of its own, with the bytes once more: no page can take from the time or the memory of
another, or disturb it, and whoever asks can do something else in between.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import re
import resource
import select
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from retrieval.parsing.confinement import confine
from retrieval.parsing.parsed import (
    EMPTY,
    TOO_LARGE,
    TOO_MUCH_MEMORY,
    TOO_SLOW,
    UNREADABLE,
    UNSUPPORTED_KIND,
    Parsed,
    UnreadableError,
    without_surrogates,
)
from retrieval.workers.messages import read_message, write_messages
from retrieval.workers.stopping import begin_in_background

PARSERS = {
    "pdf": "pdf.pdf_pages:parse",
    "html": "html_pages:parse",
    "docx": "office.word_documents:parse",
    "pptx": "office.slides:parse",
    "xlsx": "office.workbooks:parse",
    "ods": "office.open_documents:parse_ods",
    "odt": "office.open_documents:parse_odt",
    "odp": "office.open_documents:parse_odp",
    "epub": "epub_books:parse",
    "ipynb": "notebooks:parse",
    "email": "mails:parse_email",
    "mbox": "mails:parse_mbox",
    "rst": "restructured:parse",
    "csv": "delimited:parse_csv",
    "tsv": "delimited:parse_tsv",
    "subtitles": "subtitles:parse",
    "image": "scans.image_files:parse",
}
_OF_OCR = ("image",)
_MEGABYTE = 1024 * 1024
_OVERHEAD = 2  # of JSON over the text in it, and some for marks
_PIECE_BYTES = 1 << 20
_MOST_ERROR_BYTES = 4096
_OWN_MEMORY = Path("/proc/self/statm")
_NEARLY_ALL = 0.8  # of the address space: the last allocation was larger than what was left
_CONTROLS = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")
_DAMAGED = "cannot be read: it is damaged, or not what its name says"

Parser = Callable[[bytes], Parsed]


@dataclass(frozen=True, slots=True)
class Question:
    """What to parse, and the most that it may take. seconds: of computing.

    Of a `page`, counted from 1, the text is recognised in its picture, in languages whose data are at these places
    (without the suffix).
    """

    kind: str
    seconds: float
    memory_mb: int
    output_mb: int
    page: int = 0
    languages: Sequence[str] = ()

    @property
    def too_slow(self) -> str:
        return f"takes more than {self.seconds:g} seconds to be read"


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--nice", type=int, default=0)
    begin_in_background(options.parse_args().nice)
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    while (told := read_message(questions)) is not None and (content := read_message(questions)) is not None:
        write_messages(answers, _answer(Question(**json.loads(told)), content), b"")


def _answer(question: Question, content: bytes) -> bytes:
    try:
        parser = _parser(question)
    except ImportError:
        return _error(UNSUPPORTED_KIND, _needed(question))
    except UnreadableError as error:
        return _error(error.code, error.message)
    reader, writer = os.pipe()
    problems, problems_writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(problems_writer, 2)
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            _parse(parser, question, content, writer)
        finally:
            os._exit(0)
    os.close(writer)
    os.close(problems_writer)
    try:
        return _watch(pid, reader, problems, question)
    finally:
        os.close(reader)
        os.close(problems)


def _parser(question: Question) -> Parser:
    if question.page or question.kind in _OF_OCR:
        recognition = importlib.import_module("retrieval.parsing.scans.recognition")
    if question.page:
        recognised: Parser = recognition.recogniser(question.kind, question.page, question.languages)
        return recognised
    module, _, function = PARSERS[question.kind].partition(":")
    parser: Parser = getattr(importlib.import_module(f"retrieval.parsing.{module}"), function)
    return parser


def _needed(question: Question) -> str:
    if question.page or question.kind in _OF_OCR:
        return "text in pictures needs the extra 'ocr': pip install 'rag-wrapper[ocr]'"
    return f"{question.kind} files need the extra 'formats': pip install 'rag-wrapper[formats]'"


def _parse(parser: Parser, question: Question, content: bytes, writer: int) -> None:
    """Parse in this process, which is the fork, and write the answer."""
    try:
        confine(question.seconds, question.memory_mb)
        answer = _spelt(parser(content), question.output_mb)
    except UnreadableError as error:
        answer = _error(error.code, error.message)
    except MemoryError:
        answer = _error(TOO_MUCH_MEMORY, f"needs more than {question.memory_mb} MB of memory to be read")
    except Exception:  # whatever a parser raises for a broken file
        answer = _error(UNREADABLE, _DAMAGED)
    view = memoryview(answer)
    while view:
        view = view[os.write(writer, view) :]


def _spelt(parsed: Parsed, output_mb: int) -> bytes:
    text = without_surrogates(parsed.text.replace("\f", "\n").replace("\v", "\n"))
    text = _CONTROLS.sub(" ", text)
    if not text.strip() and not parsed.scanned:
        raise UnreadableError("contains no text", EMPTY)
    if len(text) > output_mb * _MEGABYTE or len(text.encode()) > output_mb * _MEGABYTE:
        raise UnreadableError(f"makes more than {output_mb} MB of text", TOO_LARGE)
    fields = {each.name: getattr(parsed, each.name) for each in dataclasses.fields(parsed)} | {"text": text}
    return json.dumps({"parsed": fields}, ensure_ascii=False).encode("utf-8", "replace")


def _error(code: str, message: str) -> bytes:
    return json.dumps({"code": code, "message": message}).encode()


def _watch(pid: int, reader: int, problems: int, question: Question) -> bytes:
    """Return the answer of the fork, or what became of it. Ends this process, and the fork with it, when nobody waits
    for the answer, and when somebody else ended the fork."""
    limit = question.output_mb * _MEGABYTE * _OVERHEAD + _MEGABYTE
    answer, said = bytearray(), bytearray()
    poll = select.poll()
    poll.register(0, 0)  # only whether it has ended: no question comes before this answer
    poll.register(reader, select.POLLIN)
    poll.register(problems, select.POLLIN)
    open_pipes = {reader, problems}
    while open_pipes and len(answer) <= limit:
        events = dict(poll.poll())
        if 0 in events:
            sys.exit()
        for pipe in open_pipes & events.keys():
            piece = os.read(pipe, _PIECE_BYTES)
            if pipe == reader:
                answer += piece
            else:
                said = (said + piece)[-_MOST_ERROR_BYTES:]
            if not piece:
                poll.unregister(pipe)
                open_pipes.discard(pipe)
    if open_pipes:
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if open_pipes:
        return _error(TOO_LARGE, f"makes more than {question.output_mb} MB of text")
    if ended_by == signal.SIGXCPU:
        return _error(TOO_SLOW, question.too_slow)
    if ended_by or not answer:
        if b"memory" in said or _filled(usage, question):
            return _error(TOO_MUCH_MEMORY, f"needs more than {question.memory_mb} MB of memory to be read")
        if ended_by in (signal.SIGKILL, signal.SIGTERM):
            sys.exit()  # by somebody else, as where the machine is out of memory: this is asked once more
        return _error(UNREADABLE, _DAMAGED)
    return bytes(answer)


def _filled(usage: resource.struct_rusage, question: Question) -> bool:
    """Return whether a fork that crashed had used up its address space: that of this process, and what it added.

    Parsers in C do not all check what they allocate.
    """
    size, resident = (int(pages) * resource.getpagesize() for pages in _OWN_MEMORY.read_text().split()[:2])
    return size + usage.ru_maxrss * 1024 - resident > _NEARLY_ALL * question.memory_mb * _MEGABYTE


if __name__ == "__main__":
    main()
