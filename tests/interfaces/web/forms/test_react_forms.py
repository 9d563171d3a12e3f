"""react-jsonschema-form, as it comes from npm, renders the form of every provider."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from schemas.wire.connecting.provider_forms import rendered_schema
from tests.interfaces.console.conftest import Reader
from tests.support.live import PATIENCE_SECONDS

FORMS = ("@rjsf/core@6.11.1", "@rjsf/utils@6.11.1", "@rjsf/validator-ajv8@6.11.1")
PACKAGES = (*FORMS, "react@19.3.1", "react-dom@19.3.1")
RENDER = Path(__file__).with_name("render.cjs")
TOOLS = RENDER.parents[4] / ".npm-tools" / "react-forms"
PROVIDERS = [entry for entry in discover(ProviderRegistry(), strangers=[]).entries() if entry.provider is not None]
PLACEHOLDERS = ("${SOME_URL}", "${SOME_URL:-http://127.0.0.1:1}", "http://${SOME_HOST}:8000", "https://${HOST}/v1")


class Form(Reader):
    """A rendered form: its controls by their ids, its labels, and the titles that its choices offer."""

    def __init__(self, html):
        super().__init__(html)
        told = [(tag, each, text) for (tag, each), text in zip(self.elements, self.texts[1:], strict=True)]
        self.controls = {
            each["id"]: {"tag": tag, **each} for tag, each, _ in told if tag in ("input", "select", "textarea")
        }
        self.labels = {each.get("for"): text for tag, each, text in told if tag == "label"}
        self.options = [text for tag, _, text in told if tag == "option"]


@pytest.fixture(scope="module")
def tools(processes):
    """The folder with the packages. The tests are skipped, aloud, where they cannot be had."""
    wanted = "\n".join(PACKAGES)
    marker = TOOLS / "installed"
    if marker.is_file() and marker.read_text() == wanted:
        return TOOLS
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed: no form is rendered by react-jsonschema-form")
    TOOLS.parent.mkdir(exist_ok=True)
    # Beside its place first: another run may do the same at the same time.
    fresh = Path(tempfile.mkdtemp(dir=TOOLS.parent))
    (fresh / "package.json").write_text('{"private": true}')
    options = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
    try:
        done = subprocess.run(
            [npm, "install", *options, *PACKAGES], cwd=fresh, capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
        failure = done.stderr.strip()[-300:] if done.returncode else ""
    except subprocess.TimeoutExpired:
        failure = f"not within {PATIENCE_SECONDS} s"
    if failure:
        shutil.rmtree(fresh)
        pytest.skip(f"npm cannot be asked for react-jsonschema-form: {failure}")
    (fresh / "installed").write_text(wanted)
    shutil.rmtree(TOOLS, ignore_errors=True)
    try:
        fresh.rename(TOOLS)
    except OSError:  # another run was quicker
        shutil.rmtree(fresh)
    return TOOLS


@pytest.fixture(scope="module")
def rendered(tools):
    """By provider: the form that was rendered, the properties that the default validator finds wrong, by
    configuration, and which alternatives are chosen when connections are opened."""
    asked = [
        {
            "schema": rendered_schema(each.provider.connection_schema()),
            "configs": configs_of(each),
            "opened": [config for _, config in choices_made(each)],
        }
        for each in PROVIDERS
    ]
    done = subprocess.run(
        ["node", str(RENDER)],
        input=json.dumps(asked),
        cwd=tools,
        env={"NODE_PATH": str(tools / "node_modules"), "PATH": str(Path(shutil.which("node")).parent)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    # The validator's complaints of a schema that it cannot read.
    assert done.stderr == ""
    answers = json.loads(done.stdout)
    return {
        (entry.kind, entry.id): (
            Form(answer["html"]),
            dict(zip(map(json.dumps, configs_of(entry)), answer["faults"], strict=True)),
            answer["chosen"],
        )
        for entry, answer in zip(PROVIDERS, answers, strict=True)
    }


def fields_of(entry):
    return entry.provider.connection_schema()["properties"]


def filled(entry, url, secret=None):
    fields = fields_of(entry)
    found = {name: secret for name, field in fields.items() if field.get("writeOnly") and secret}
    return found | ({"url": url} if "url" in fields else {})


def valid_configs(entry):
    secrets = ("${SOME_API_KEY}", "${file:/run/secrets/key}", "sk-typed")
    return [filled(entry, url, secret) for url in (*PLACEHOLDERS, "http://127.0.0.1:8000/v1") for secret in secrets]


def wrong_configs(entry):
    return [filled(entry, url) for url in ("nowhere", "http://user@host", "http://host?key=1")]


def choices_made(entry):
    """Return (the title of an alternative, a configuration in which it was chosen) for each that there is."""
    examples = {name: field["examples"][0] for name, field in fields_of(entry).items() if "examples" in field}
    return [
        (choice["title"], {name: examples[name] for name in named} | {"timeout_seconds": 5})
        for choice in entry.provider.connection_schema().get("oneOf", ())
        for named in (choice["required"], choice["x-fields"])
    ]


def configs_of(entry):
    return [*valid_configs(entry), *wrong_configs(entry), {"no_such_field": 1}]


each_provider = pytest.mark.parametrize("entry", PROVIDERS, ids=lambda entry: f"{entry.kind}-{entry.id}")


@each_provider
def test_every_field_has_its_control_under_its_title_and_secrets_alone_are_masked(rendered, entry):
    form, *_ = rendered[entry.kind, entry.id]
    for name, field in fields_of(entry).items():
        assert form.labels[f"root_{name}"].rstrip("*") == field["title"]
        control = form.controls[f"root_{name}"]
        assert (control["tag"] == "select") == ("enum" in field)
        assert (control.get("type") == "password") == bool(field.get("writeOnly"))


@each_provider
def test_placeholders_are_valid_where_they_may_stand_and_nonsense_is_not(rendered, entry):
    _, faults, _ = rendered[entry.kind, entry.id]
    for config in valid_configs(entry):
        assert faults[json.dumps(config)] == [], config
    if "url" in fields_of(entry):
        for config in wrong_configs(entry):
            assert ".url" in faults[json.dumps(config)], config
    assert faults[json.dumps({"no_such_field": 1})] != []


@each_provider
def test_choices_have_their_titles_and_are_chosen_again(rendered, entry):
    form, _, chosen = rendered[entry.kind, entry.id]
    choices = entry.provider.connection_schema().get("oneOf", ())
    assert all(each["title"] in form.options for each in choices)
    assert chosen == [title for title, _ in choices_made(entry)]
    assert not any(option.casefold().startswith("option") for option in form.options)
