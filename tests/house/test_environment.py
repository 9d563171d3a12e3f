"""The environment is read only where settings are read and where the product is put together."""

from __future__ import annotations

import ast
import re

from tests.house.test_rooms import PRODUCT, dotted

READERS = {
    "schemas.settings": "reads settings and the configuration file",
    "interfaces.commands": "each command puts together what it needs",
    "interfaces.service_address": "finds the service that commands ask",
    "interfaces.service_key": "finds the key that commands send it",
    "interfaces.compose": "puts the service together",
    "interfaces.built_in_connections": "puts the connections of the settings together",
    "interfaces.declared_connections": "puts the connections of the configuration file together",
    "interfaces.model_checks": "checks the keys of the configured models",
    "interfaces.start_checks": "looks at the settings before anything starts",
    "providers.embeddings.minilm": "tells onnxruntime not to report to its maker",
    "wrapper.serving": "is run by gunicorn, whose processes tell each other by the environment",
    "wrapper.observing.service_gauges": "learns likewise which process is the master",
    "wrapper.service": "learns whether gunicorn's master process already owns the data directory",
    "wrapper.observing.metrics": "learns from prometheus-client's own variable whether there are several processes",
    "wrapper.engine.keeper_process": "gives the keeper its environment",
    "wrapper.engine.keeper.chroma_child": "gives the engine its environment",
}


def reads_the_environment(path):
    text = path.read_text()
    return re.search(r"environ|getenv", text) is not None and any(
        (
            isinstance(node, ast.Attribute)
            and node.attr in ("environ", "environb", "getenv")
            and isinstance(node.value, ast.Name)
            and node.value.id == "os"
        )
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "os"
            and {alias.name for alias in node.names} & {"environ", "environb", "getenv"}
        )
        for node in ast.walk(ast.parse(text))
    )


def reader_of(name):
    return next((reader for reader in READERS if name == reader or name.startswith(f"{reader}.")), None)


def test_only_settings_and_composition_roots_read_the_environment():
    found = {dotted(path): reader_of(dotted(path)) for path in PRODUCT if reads_the_environment(path)}
    assert [name for name, reader in found.items() if reader is None] == []
    assert set(found.values()) >= set(READERS) - {"schemas.settings"}
