"""Commands that ask, asked of an app in this process."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from interfaces.cli import main
from interfaces.terminal import services
from tests.support.live import eventually


class Borrowed(services.DataDirectory):
    """An app that others use, too."""

    def close(self):
        """Leave it open."""


@pytest.fixture
def run(app, monkeypatch):
    """`run(command, …, on=app)`: the result of a command that has the app for its data directory."""

    def run(*arguments, on=app):
        monkeypatch.setattr(services, "_chosen", lambda *_: Borrowed(on, Path("data")))
        result = CliRunner().invoke(main, [str(each) for each in arguments])
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
