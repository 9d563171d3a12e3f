"""Errors below a path, in another product's words."""

import pytest
from flask import Flask

from schemas.errors import (
    CollectionNotFoundError,
    ConflictError,
    RagError,
    TooManyRequestsError,
    UnauthorizedError,
    UnsupportedError,
)
from wrapper.web import error_statuses
from wrapper.web.error_statuses import ErrorFace, speak

SECRET = "rw_7k2m9xq4_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture
def asked():
    """`asked(error, path)`: the answer of an application with a face below `/other`, whose routes raise the error."""
    app = Flask("faces")
    error_statuses.init_app(app)
    speak(
        app,
        ErrorFace(
            "/other",
            lambda error, status: {"name": type(error).__name__, "said": error.message, "status": status},
            {UnsupportedError: 501, UnauthorizedError: 403},
            lambda error, status: {"x-said": str(status)},
        ),
    )
    raised = []

    def fail():
        raise raised.pop()

    for path in ("/other/thing", "/others"):
        app.add_url_rule(path, path, fail)

    def ask(error, path="/other/thing", method="GET"):
        raised[:] = [error]
        return app.test_client().open(path, method=method)

    return ask


def test_a_face_spells_errors_by_the_one_table_and_its_exceptions(asked):
    kinds = {CollectionNotFoundError: 404, ConflictError: 409, UnsupportedError: 501, UnauthorizedError: 403}
    for kind, status in kinds.items():
        answer, told = asked(kind("x")), {"name": kind.__name__, "said": kind("x").message, "status": status}
        assert (answer.status_code, answer.json, answer.headers["x-said"]) == (status, told, str(status))


def test_headers_of_every_error_stay_and_no_secret_is_told(asked):
    assert SECRET not in asked(RagError(f"With {SECRET} nothing works")).text
    assert asked(TooManyRequestsError("Slowly", retry_after_seconds=7, limit="n")).headers["Retry-After"] == "7"
    assert asked(UnauthorizedError("Who asks?")).headers["WWW-Authenticate"] == "Bearer"


def test_paths_that_are_none_wrong_methods_and_defects_are_told_of_in_the_same_words(asked):
    for path in ("/other", "/other/", "/other/unknown"):
        answer = asked(None, path)
        assert (answer.status_code, answer.json["name"]) == (404, "NotFoundError"), path
    refused = asked(None, method="POST")
    assert (refused.status_code, refused.json["name"]) == (405, "WrongMethodError")
    assert "GET" in refused.headers["Allow"]
    failed = asked(ZeroDivisionError())
    told = {"name": "RagError", "said": "Internal server error", "status": 500}
    assert (failed.status_code, failed.json) == (500, told)


def test_what_only_begins_like_it_is_not_below(asked):
    assert asked(UnsupportedError("This cannot be done"), "/others").status_code == 422
    assert asked(UnsupportedError("This cannot be done"), "/others").json["code"] == "unsupported"
