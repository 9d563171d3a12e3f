"""The import rules of `pyproject.toml` catch a violation of each rule, planted in a copy in a module that nobody
listed."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
CONFIGURATION = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]
CLIENT = "clients/python/src"
"""Where the one package is that is not part of the product."""
CIRCLES = "neighbouring rooms do not import each other in circles"
RULES = [contract["name"] for contract in CONFIGURATION["contracts"]]

PLANTED = {
    "folders point down": [
        ("schemas/planted.py", "import providers.base"),
        ("providers/planted.py", "from registry import connections"),
        ("registry/planted.py", "import retrieval.search.engine"),
        ("retrieval/planted.py", "def late():\n    from interfaces import layers"),
    ],
    "the storage proxy knows nothing of what stands on it": [("wrapper/indexing/planted.py", "import providers.base")],
    "only interfaces know the storage proxy from inside": [("providers/planted_too.py", "import wrapper.store")],
    CIRCLES: [
        ("wrapper/catalog/planted.py", "import wrapper.indexing.indexer"),
        ("retrieval/chunking/planted_first.py", "def late():\n    import retrieval.chunking.planted_second"),
        (
            "retrieval/chunking/planted_second.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from retrieval.chunking import planted_first",
        ),
    ],
    "the client knows the wire alone": [
        ("rag_wrapper_client/methods/planted.py", "from schemas.errors import RagError")
    ],
    "the product does without its client": [
        ("interfaces/commands/planted_client.py", "from rag_wrapper_client import Client")
    ],
    "the wire is spelt at the edges": [("retrieval/planted_wire.py", "import schemas.wire.search")],
    "sockets to other services are opened in one room": [("registry/planted_socket.py", "import requests")],
    "the web layer of the storage proxy asks the store": [
        ("wrapper/routes/planted_store.py", "from wrapper.catalog import reads")
    ],
    "interfaces ask the service": [
        ("interfaces/commands/planted_catalog.py", "from wrapper.catalog.catalog import Catalog")
    ],
    "Flask stays in the web layers": [("wrapper/indexing/planted_flask.py", "import flask")],
    "gunicorn stays where the service is served": [("interfaces/commands/planted_gunicorn.py", "import gunicorn")],
    "SQL stays in the catalogue": [("wrapper/indexing/planted_sql.py", "import sqlalchemy")],
    "stemmers and languages stay in the word index": [("schemas/words/planted_stemmer.py", "import Stemmer")],
    "what counts requests stays with the limits of keys": [
        ("wrapper/web/planted_limits.py", "from limits.strategies import MovingWindowRateLimiter")
    ],
    "Chroma stays in its own process": [("wrapper/indexing/planted_chroma.py", "import chromadb")],
    "the engine's keeper needs the standard library only": [("wrapper/engine/keeper/planted.py", "import numpy")],
    "pytest stays in the contract tests of providers": [("providers/planted_pytest.py", "import pytest")],
    "MCP stays in its interface": [("interfaces/commands/planted_mcp.py", "import mcp")],
    "tokens of users are read in one room": [("interfaces/web/planted_jwt.py", "import jwt")],
    "OpenTelemetry stays with the traces": [("wrapper/web/planted_traces.py", "from opentelemetry import trace")],
    "a provider's library stays with it": [("registry/planted_qdrant.py", "from qdrant_client import QdrantClient")],
    "providers are known by contract, never by name": [
        ("retrieval/planted_provider.py", "from providers.chat.openai import register")
    ],
    "providers do not know each other": [
        ("providers/qdrant/planted_neighbour.py", "from providers.chroma.records import to_record")
    ],
    "providers of models do not know each other": [
        ("providers/chat/planted_vendor.py", "from providers.chat.ollama import OllamaChat")
    ],
    "rooms of retrieval point down": [
        ("retrieval/search/planted_upward.py", "from retrieval.text_collections import TextCollections")
    ],
    "parsers stay where they are confined": [("retrieval/reading/planted_parser.py", "from lxml import etree")],
    "the product imports neither tests nor benchmarks": [
        ("providers/planted_test.py", "from tests.support.live import free_port")
    ],
}


def dotted(file):
    return file.removesuffix(".py").replace("/", ".")


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """The output of lint-imports for a copy of the product in which every rule is violated; `make lint` holds the
    product itself to them."""
    folder = tmp_path_factory.mktemp("copy")
    for package in CONFIGURATION["root_packages"]:
        found = PROJECT / package if (PROJECT / package).is_dir() else PROJECT / CLIENT / package
        shutil.copytree(found, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PROJECT / "tests" / "house", folder / "tests" / "house")
    shutil.copy(PROJECT / "pyproject.toml", folder)
    for file, statement in (each for planted in PLANTED.values() for each in planted):
        (folder / file).write_text(f"{statement}\n")
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1
    return re.sub(r"\s+", " ", done.stdout + done.stderr)


def details(rule, said):
    """Return what lint-imports tells of one broken rule."""
    _, _, broken = said.partition("Broken contracts")
    headings = sorted((broken.index(f"{name} ---"), name) for name in RULES if f"{name} ---" in broken)
    ends = [start for start, _ in headings[1:]] + [len(broken)]
    return next((broken[start:end] for (start, name), end in zip(headings, ends, strict=True) if name == rule), "")


def test_a_violation_of_every_rule_is_planted_and_found(said):
    assert sorted(PLANTED) == sorted(RULES)
    assert [rule for rule in RULES if f"{rule} BROKEN" not in said] == []


def test_each_violation_is_named_by_its_own_rule(said):
    planted = [(rule, dotted(file)) for rule in PLANTED if rule != CIRCLES for file, _ in PLANTED[rule]]
    assert [each for each in planted if not re.search(rf"\b{re.escape(each[1])}\b", details(each[0], said))] == []


def test_circles_of_rooms_and_of_modules_are_found_late_imports_and_those_for_type_checkers_included(said):
    found = set(re.findall(r"No cycles are allowed in ([\w.]+)\. ", details(CIRCLES, said)))
    assert {"wrapper", "retrieval.chunking"} <= found
