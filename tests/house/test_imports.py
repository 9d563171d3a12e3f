"""Import rules that import-linter cannot state: it takes `http.client` for `http`, and a package for all that is in
it. And the environment is read only where settings are read and where the product is put together."""

import ast
import re

import pytest

from tests.house.test_rooms import PACKAGES, PRODUCT, PROJECT, dotted

_SPEAKS_OF_THE_NETWORK = re.compile(r"\b(?:http|urllib|socket|ssl)\b")
NETWORK = ("http.client", "http.server", "urllib.request", "socket", "ssl")
NETWORK_USERS = {
    "interfaces.commands.scratch_service": {"socket": "finds a free port"},
    "interfaces.commands.work.folder_watch": {"socket": "names the watcher after its machine"},
    "providers.contract_tests.samples": {"socket": "finds an address at which nobody listens"},
    "providers.contract_tests.stub_server": {"http.server": "answers as a failing service does"},
    "providers.outbound.http_sessions": {
        "socket": "closes a connection that another thread reads",
        "ssl": "names the type of a context",
    },
    "providers.outbound.network": {"socket": "opens every socket to another service"},
    "providers.outbound.trust": {"ssl": "builds the TLS contexts of connections to other services"},
    "schemas.settings.storage": {"ssl": "checks the file of certificates before the start"},
    "wrapper.engine.keeper.chroma_child": {"socket": "finds a port for the engine"},
    "wrapper.engine.keeper.heartbeat": {"socket": "asks the engine without a library, so that the keeper stays small"},
    "wrapper.engine.server_access": {"ssl": "builds the TLS context for a Chroma server"},
    "wrapper.engine.transport": {
        "http.client": "speaks to the engine over connections that it keeps",
        "ssl": "tells a certificate that is refused from a server that is down",
    },
    "wrapper.serving.certificate": {"ssl": "builds the TLS context of the service"},
    "wrapper.serving.gunicorn_worker": {"socket": "takes the connections of clients"},
    "wrapper.serving.tls_sockets": {
        "socket": "gives up on slow clients that speak TLS, too",
        "ssl": "encrypts and decrypts in memory",
    },
    "wrapper.start_checks": {"socket": "tries the service's port before the start"},
    "wrapper.web.hosts_and_origins": {"socket": "learns the machine's own name"},
    "wrapper.web.slow_clients": {"socket": "gives up on slow clients"},
}
"""The modules that touch the network themselves, with what each imports for it and why."""

PACKAGE_IMPORTS = {
    "wrapper": {
        "typing.TYPE_CHECKING",
        "flask.Flask",  # for type checkers
        "schemas.settings.AccessSettings",  # for type checkers
        "schemas.settings.WrapperSettings",  # for type checkers
        "wrapper.app",  # late: `gunicorn 'wrapper:create_app()'`
    }
}
"""What the `__init__` of a top package imports. The others import nothing, so that importing a module costs only what
the module needs."""


def imported(source, package=""):
    """Return the dotted names that a module's text imports, late imports and those by `import_module` included. Of
    `from a import b` that is `a.b`. `package` is the package that relative imports start from."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            start = parents[: len(parents) + 1 - node.level] if node.level else []
            module = ".".join([*start, *filter(None, [node.module])])
            found |= {f"{module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            found |= {each.value for each in node.args[:1] if isinstance(each, ast.Constant)}
    return {name for name in found if not name.startswith("__future__.")}


def imports_of(path):
    return imported(path.read_text(), ".".join(path.relative_to(PROJECT).parent.parts))


def within(name, module):
    return name == module or name.startswith(f"{module}.")


def of_the_network(names):
    return {module for module in NETWORK if any(within(name, module) for name in names)}


def of_the_wire(names):
    return {name for name in names if within(name, "schemas.wire")}


@pytest.mark.slow
def test_only_these_modules_touch_the_network_themselves():
    speaking = [path for path in PRODUCT if _SPEAKS_OF_THE_NETWORK.search(path.read_text())]
    found = {dotted(path): names for path in speaking if (names := of_the_network(imports_of(path)))}
    assert found == {module: set(reasons) for module, reasons in NETWORK_USERS.items()}


def test_only_the_wire_itself_knows_the_wire_within_schemas():
    outside = [path for path in PRODUCT if within(dotted(path), "schemas") and not within(dotted(path), "schemas.wire")]
    assert outside
    assert {dotted(path): names for path in outside if (names := of_the_wire(imports_of(path)))} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_init_of_a_top_package_imports_nothing_more(package):
    assert imports_of(PROJECT / package / "__init__.py") == PACKAGE_IMPORTS.get(package, set())


def test_every_way_to_import_is_found():
    for planted, name in (
        ("import http.client", "http.client"),
        ("import http.server as server", "http.server"),
        ("from http import client", "http.client"),
        ("from http.client import HTTPConnection", "http.client.HTTPConnection"),
        ("def late():\n    from urllib import request", "urllib.request"),
        ("if TYPE_CHECKING:\n    import socket", "socket"),
        ("import_module('socket')", "socket"),
        ("from .wire.body import Body", "schemas.wire.body.Body"),
        ("from . import wire", "schemas.wire"),
        ("from __future__ import annotations\nimport json", "json"),
    ):
        assert imported(planted, "schemas") == {name}


def test_what_opens_no_socket_and_is_not_of_the_wire_only_sounds_like_it():
    assert of_the_network({"http.client.HTTPConnection", "ssl"}) == {"http.client", "ssl"}
    assert of_the_network({"http.HTTPStatus", "urllib.parse.quote", "socketserver_of_ours"}) == set()
    assert of_the_wire({"schemas.wire.body.Body", "schemas.wires", "schemas"}) == {"schemas.wire.body.Body"}


READERS = {
    "schemas.settings": "reads settings and the configuration file",
    "interfaces.commands": "each command puts together what it needs",
    "interfaces.asked_service": "finds the service that commands ask, and the key that they send it",
    "interfaces.given_connections": "puts the connections of the settings and of the configuration file together",
    "interfaces.layers": "puts the layers of a service together",
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
