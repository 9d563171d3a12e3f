"""What the processes of a service import, and when: before the workers are forked, so that they share it. And what
`rag-wrapper mcp` imports until it has said which tools there are."""

import json
import subprocess
import sys

from tests.support.live import free_port

OPTIONAL = {
    "cryptography.x509",  # for a certificate of the service, and the tokens of users
    "docutils",
    "httpx",
    "jwt",
    "lxml",
    "mammoth",
    "mcp",
    "mcp_types",
    "onnx",
    "onnxruntime",
    "opentelemetry",
    "psycopg",
    "pydantic",
    "pypdfium2",
    "python_calamine",
    "qdrant_client",
    "rich.progress",
    "sqlalchemy.dialects.postgresql",
    "tiktoken",
    "tokenizers",
    "watchfiles",
}
"""What no service needs for its start, or for most of its requests."""

PROBE = """
import json, os, sys
from interfaces import compose
from interfaces.commands.work import serving
from wrapper.serving import gunicorn_config, gunicorn_worker
compose.import_all()
imported = set(sys.modules)
made = set()
if sys.argv[1:] == ["create"]:
    compose.create_app().extensions["rag.service"].close()
    made = set(sys.modules) - imported
os.write(1, json.dumps([sorted(imported), sorted(made)]).encode())
"""


LISTING = """
import sys
from interfaces.commands.local_tools import LocalTools
from interfaces.mcp.server import described, tool_server
from interfaces.mcp.stdio import serve_stdio
from schemas.settings import AccessSettings, RegistrySettings, RetrievalSettings, WrapperSettings
tools = LocalTools(WrapperSettings(), RegistrySettings(), RetrievalSettings(), AccessSettings())
tool_server(tools)
assert list(map(described, tools().values()))
print(sorted({"flask", "numpy", "requests", "sqlalchemy"} & set(sys.modules)))
"""


SERVING = """
import json, os, runpy, sys

class Watch:
    def find_spec(self, name, *_):
        if name == "numpy":
            told["threads"] = os.environ.get("OPENBLAS_NUM_THREADS")

def serving(module, **_):
    told["module"], told["arguments"], told["folder"] = module, sys.argv[1:], os.getcwd()

told = {}
sys.meta_path.insert(0, Watch())
runpy.run_module = serving
from interfaces.cli import main
main(["serve"], standalone_mode=False)
import numpy
os.write(1, json.dumps(told).encode())
"""


def probed(*arguments):
    """Return (the modules that a master imports, those that the application imports when it is made after that)."""
    done = subprocess.run([sys.executable, "-c", PROBE, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def test_a_service_imports_no_library_that_it_may_never_need():
    imported, _ = probed()
    assert {"interfaces.compose", "wrapper.app", "numpy", "flask"} <= set(imported)
    assert OPTIONAL & set(imported) == set()


def test_workers_import_nothing_that_their_master_could_have_imported(processes, tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("RAG_PORT", str(free_port()))
    _, made = probed("create")
    assert [name for name in made if name.partition(".")[0] not in sys.stdlib_module_names] == []


def test_mcp_lists_its_tools_without_what_their_work_needs():
    done = subprocess.run([sys.executable, "-c", LISTING], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_process_that_has_checked_becomes_gunicorns_master_and_numpy_works_with_one_thread(
    tmp_path, monkeypatch, pytestconfig
):
    """Whoever imports NumPy first: the variable is there."""
    monkeypatch.setenv("RAG_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("RAG_PORT", str(free_port()))
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    done = subprocess.run([sys.executable, "-c", SERVING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "module": "gunicorn",
        "arguments": ["-c", "python:wrapper.serving.gunicorn_config", "interfaces.compose:create_app()"],
        "folder": str(pytestconfig.rootpath),
        "threads": "1",
    }
