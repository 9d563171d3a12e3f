"""Errors have one table of statuses, one way to be answered, and one list for clients."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from schemas.errors import RagError
from schemas.wire.error_bodies import error_body, error_body_with_short_word, nearest, tool_error_body
from wrapper.web.error_statuses import STATUS, status_of

PROJECT = Path(__file__).parents[2]
PACKAGES = ("schemas", "wrapper", "providers", "registry", "retrieval", "interfaces")
THE_TABLE = "wrapper/web/error_statuses.py"
WEB = ("wrapper/web", "wrapper/routes", "interfaces")
OTHER_NUMBERS = {"wrapper/web/line_streams.py": ["500"]}
"""Numbers that look like statuses but count something else."""
IN_COMMANDS_ONLY = {
    *("backup_exists", "damaged_backup", "newer_backup", "unencrypted_backup", "wrong_backup_key"),
    *("link", "not_a_file", "not_empty", "not_movable"),
    "other_catalogue_kind",
}


def modules(*folders):
    return [file for folder in folders for file in sorted((PROJECT / folder).rglob("*.py"))]


def test_only_the_table_knows_statuses_of_errors():
    found = {str(file.relative_to(PROJECT)): statuses for file in modules(*WEB) if (statuses := _statuses_in(file))}
    assert found.pop(THE_TABLE)
    assert found == OTHER_NUMBERS


def _statuses_in(file):
    return [ast.unparse(node) for node in ast.walk(ast.parse(file.read_text())) if _is_status(node)]


def _is_status(node):
    if isinstance(node, ast.Constant):
        return type(node.value) is int and 400 <= node.value <= 599
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "HTTPStatus"


@pytest.mark.slow
def test_every_code_is_in_the_list_for_clients_with_its_status():
    listed = {}
    for code, status, meaning in _rows():
        assert code not in listed, f"{code} is listed twice"
        assert meaning.endswith("."), f"{code} has no sentence"
        listed[code] = status
    raised = _codes()
    assert set(listed) == set(raised)
    assert {code for code, status in listed.items() if status == "–"} == IN_COMMANDS_ONLY
    for code in raised.keys() - IN_COMMANDS_ONLY:
        assert {listed[code]} == {str(status) for status in raised[code]}, code


def _rows():
    text = (PROJECT / "docs" / "errors.md").read_text()
    return re.findall(r"^\| `([a-z_]+)` \| (\d{3}|–) \| (.+) \|$", text, re.MULTILINE)


@cache
def _codes():
    """Return {code: statuses} of all classes of errors, and of all codes that are given where an error is raised."""
    found = {}
    for file in modules(*PACKAGES):
        tree = ast.parse(file.read_text())
        if not any(_makes_errors(node) for node in ast.walk(tree)):
            continue
        module = importlib.import_module(".".join(file.relative_to(PROJECT).with_suffix("").parts))
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            kind = getattr(module, getattr(call.func, "id", ""), None)
            for keyword in call.keywords:
                if keyword.arg == "code" and isinstance(kind, type) and issubclass(kind, RagError):
                    code = _text(keyword.value, module)
                    if code is not None:
                        found.setdefault(code, set()).add(status_of(kind))
    for kind in _family(RagError):
        found.setdefault(kind.code, set()).add(status_of(kind))
    return found


def _makes_errors(node):
    if isinstance(node, ast.ClassDef):
        return any(getattr(base, "id", "").endswith("Error") for base in node.bases)
    return isinstance(node, ast.keyword) and node.arg == "code"


def _text(node, module):
    if isinstance(node, ast.Constant):
        return node.value
    value = getattr(module, node.id, None) if isinstance(node, ast.Name) else None
    return value if isinstance(value, str) else None


def _family(kind):
    """Return a class of the product's errors and all its subclasses, except those that tests define."""
    yield kind
    for below in kind.__subclasses__():
        if below.__module__.split(".")[0] in PACKAGES:
            yield from _family(below)


def every_kind():
    _codes()
    return sorted(set(_family(RagError)), key=lambda kind: kind.__name__)


def made(kind):
    error = kind.__new__(kind)
    RagError.__init__(error, "It does not work", field="where")
    return error


@pytest.mark.slow
def test_the_short_word_is_that_of_the_status():
    words = {error: error_body_with_short_word(made(error)) for error in every_kind()}
    assert {body["details"]["message"] for body in words.values()} == {"It does not work"}
    by_status = {(status_of(kind), body["error"]) for kind, body in words.items()}
    assert len(dict(by_status)) == len(by_status), "one status has two words"
    assert {(400, "Validation error"), (404, "Not found"), (503, "Service Unavailable")} <= by_status


@pytest.mark.slow
def test_a_tools_error_says_whether_the_service_is_at_fault_and_writing_one_out_leaves_it_unchanged():
    for kind in every_kind():
        body = tool_error_body(made(kind))
        assert body["fallback"] == (status_of(kind) >= 500), kind
        assert list(body) == ["error", "message", "detail", "code", "details", "fallback"]
    error = made(RagError)
    for spell in (error_body, error_body_with_short_word, tool_error_body):
        spell(error)
    assert (error.summary, error.details) == (None, {"field": "where"})


@pytest.mark.slow
def test_a_short_word_is_found_for_the_class_that_has_the_status():
    for kind in every_kind():
        assert STATUS[nearest(made(kind))] == status_of(kind), kind
