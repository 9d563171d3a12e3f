"""Commands and services erase what was stored under other settings than they have themselves."""

import json
import shutil
from dataclasses import replace

import pytest

from schemas.access.callers import ANYBODY, acting_as
from schemas.contracts.collect import CollectRequest
from tests.scenarios.erasure.conftest import SETTINGS, asker
from tests.support.apps import models_of, running_app, served
from tests.support.commands import files_holding, run_command
from wrapper.secret_key import KeyFile

WORD = "zqcanarya"
ADA, BOB = asker("ada"), asker("bob")


@pytest.fixture(scope="module")
def stored_by_ada(tmp_path_factory, models):
    """A data directory with Ada's topic, and with notes of hers in two collections, one of them with notes of Bob's."""
    folder = tmp_path_factory.mktemp("left") / "data"
    settings = (
        (replace(SETTINGS, notes_collection="first-notes"), [ADA]),
        (replace(SETTINGS, notes_collection="other-notes"), [ADA, BOB]),
    )
    for retrieval, askers in settings:
        with (
            running_app(folder, registry=models_of(models, topic="rule"), retrieval=retrieval) as app,
            acting_as(ANYBODY),
        ):
            layers = app.extensions["rag.layers"]
            for each in askers:
                session = layers.notes.start("session", asker=each)
                layers.notes.note(f"I am {WORD if each == ADA else 'Bob'}.", session.id, asker=each)
            asked = CollectRequest(f"I am {WORD}.", "", "", ())
            layers.conversations.follow("talk", asked, owner=ADA.owner)
    return folder


@pytest.fixture
def left_by_ada(stored_by_ada, tmp_path):
    """A copy of it for the test alone."""
    return shutil.copytree(stored_by_ada, tmp_path / "data")


@pytest.mark.slow
def test_a_service_that_keeps_no_topics_erases_those_of_earlier_starts(left_by_ada, models_up):
    with running_app(left_by_ada, registry=models_of(models_up, topic="off"), retrieval=SETTINGS) as app:
        answer = app.test_client().post("/api/erase", json={"user": ADA.owner})
        assert answer.status_code == 200
        removed = {each["place"]: each["removed"] for each in answer.json["receipt"]["files"]}
        assert (answer.json["receipt"]["documents"], removed["topics"], removed["sessions"]) == (2, 1, 2)
        notes = app.test_client().get("/collections/other-notes/documents").json["documents"]
        assert [each["text"] for each in notes] == ["I am Bob."]
    assert files_holding(left_by_ada, WORD, ADA.owner.encode().hex()) == []


@pytest.mark.slow
def test_commands_take_a_file_of_settings_and_one_finds_the_notes_without_their_name(left_by_ada, tmp_path):
    settings = tmp_path / "rag.yaml"
    settings.write_text(f"data_dir: {left_by_ada}\n")
    (left_by_ada / "audit").mkdir(exist_ok=True)
    commands = (("keys", "list"), ("audit",), ("secrets", "list"))
    for command in commands:
        assert run_command(*command, "--config", settings).returncode == 0, command
        assert run_command(*command, data_dir=tmp_path / "none").returncode == 2, command

    with running_app(left_by_ada) as app, served(app) as url:
        erased = run_command("erase", "--user", ADA.owner, "--url", url, "--json")

    assert erased.returncode == 0, erased.stderr
    assert json.loads(erased.stdout)["receipt"]["documents"] == 2
    assert files_holding(left_by_ada, WORD) == []
    settings.write_text("nonsense: 1\n")
    for command in commands:
        wrong = run_command(*command, "--config", settings)
        assert (wrong.returncode, "unknown setting" in wrong.stderr) == (2, True), command


@pytest.mark.slow
def test_commands_take_no_other_catalogue_for_that_of_the_service(left_by_ada, tmp_path):
    """An earlier start, with other settings, has left one where those of the commands look for it."""
    commands = (
        ("secrets", "rotate"),
        ("keys", "list"),
        ("keys", "create", "ana", "--scope", "admin"),
    )
    stale, key = left_by_ada / "catalog.sqlite", KeyFile(left_by_ada)()
    left = stale.read_bytes()
    with running_app(left_by_ada, catalog_url=f"sqlite:///{tmp_path / 'real.sqlite'}"):
        pass
    for command in commands:
        refused = run_command(*command, data_dir=left_by_ada)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "this is not the catalogue with which the service of" in refused.stderr
    stale.unlink()
    for command in commands:
        refused = run_command(*command, data_dir=left_by_ada)
        assert (refused.returncode, refused.stdout) == (2, "")
    assert (stale.exists(), KeyFile(left_by_ada)()) == (False, key)
    stale.write_bytes(left)
    with running_app(left_by_ada):
        pass  # this start says which one it is
    for command in commands:
        done = run_command(*command, data_dir=left_by_ada)
        assert done.returncode == 0, done.stderr


def test_the_log_of_a_command_is_no_part_of_what_it_prints(stored_by_ada):
    url = "postgresql://nobody:secret-word@127.0.0.1:9/none"
    failed = run_command("secrets", "list", "--json", data_dir=stored_by_ada, catalog_url=url)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert "secret-word" not in failed.stderr
