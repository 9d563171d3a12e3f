"""Commands that ask, asked of an app in this process."""

import json

import pytest
from click.testing import CliRunner

from interfaces.cli import main
from tests.support.apps import served
from tests.support.live import eventually


@pytest.fixture
def run(app):
    """`run(command, …, on=app)`: the result of a command that asks the app."""

    def run(*arguments, on=app):
        with served(on) as url:
            result = CliRunner().invoke(main, [*map(str, arguments), "--url", url])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


@pytest.fixture(scope="session")
def upload(app):
    """`upload(collection, name, text, **metadata)` stores a Markdown file and waits until it is there."""
    client = app.test_client()

    def upload(collection, name, text, *, tags="", **metadata):
        given = {"collection": collection, "tags": tags, "metadata": json.dumps(metadata)}
        headers = {"X-Filename": name, "Content-Type": "text/markdown"}
        answer = client.post("/api/documents", query_string=given, data=text.encode(), headers=headers)
        assert answer.status_code == 202, answer.json
        place = f"/api/jobs/{answer.json['job']['id']}"
        eventually(lambda: client.get(place).json["status"] == "done")
        assert [each["status"] for each in client.get(place).json["files"]] == ["done"]

    return upload
