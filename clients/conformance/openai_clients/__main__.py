"""`make conformance`: ask `/v1` by OpenAI's own clients for Python and Node, by what LangChain, LlamaIndex and Haystack have
for OpenAI, and by the AI SDK, each in an environment that is made for it.

Exits with 0 when all find what they need. It needs the network, or the caches of pip and npm.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import requests

from tests.support.live import live_service
from tests.support.model_server import model_server

PYTHON_CLIENT, NODE_CLIENT = "openai>=3.50,<4", "openai@6"
EMBEDDERS = ("langchain-openai>=1.1,<2", "llama-index-embeddings-openai-like>=0.4,<0.5", "haystack-ai>=3.4,<4")
LANGCHAIN_JS, AI_SDK = "@langchain/openai@1", ("ai@7", "@ai-sdk/openai-compatible@3", "@ai-sdk/mcp@2")
HERE = Path(__file__).parent
SECONDS = 600


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="rag-wrapper-openai-") as made, model_server() as chat:
        folder = Path(made)
        asking = {
            "OpenAI's client for Python": _python(folder / "python", "asking.py", PYTHON_CLIENT),
            "OpenAI's client for Node": _node(folder / "node", "asking.mjs", NODE_CLIENT),
            "embedders for Python": _python(folder / "embedders", "embedders.py", *EMBEDDERS),
            "LangChain.js": _node(folder / "langchain-js", "langchain.mjs", LANGCHAIN_JS),
            "the AI SDK": _node(folder / "ai-sdk", "ai_sdk.mjs", *AI_SDK),
        }
        settings = {"chat_provider": "openai", "chat_url": f"{chat.url}/v1", "chat_model": "chatty"}
        with live_service(folder, access="keys", api_key="conformance-administrator-key", **settings) as service:
            admin = {"Authorization": "Bearer conformance-administrator-key"}
            collection = _filled(service.url, admin)
            wanted = {"name": "openai", "scopes": ["manage", "chat"]}
            key = requests.post(f"{service.url}/api/keys", json=wanted, headers=admin, timeout=60).json()["key"]
            environ = {
                **os.environ,
                "OPENAI_BASE_URL": f"{service.url}/v1",
                "OPENAI_API_KEY": key,
                "COLLECTION": collection,
            }
            steps = {name: _passes(name, command, environ) for name, command in asking.items()}
    for name, is_passed in steps.items():
        print(f"{'passed' if is_passed else 'FAILED'}  {name}")
    return 0 if all(steps.values()) else 1


def _filled(url: str, headers: dict[str, str]) -> str:
    """Store a text, and return the name of its collection."""
    document = {"source": "handbook", "path": "backups.md", "title": "Backups", "text": "Backups are kept for 30 days."}
    answer = requests.post(f"{url}/api/rag/ingest", json=document, headers=headers, timeout=60)
    assert answer.ok, answer.text
    return "rag-documents"


def _python(folder: Path, name: str, *packages: str) -> list[str]:
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-qq", *packages], check=True, timeout=SECONDS)
    return [python, str(HERE / name)]


def _node(folder: Path, name: str, *packages: str) -> list[str]:
    folder.mkdir()
    install = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder), *packages]
    subprocess.run(install, check=True, timeout=SECONDS)
    program = folder / name
    program.write_text((HERE / name).read_text())
    return ["node", str(program)]


def _passes(name: str, command: list[str], environ: dict[str, str]) -> bool:
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        print(f"--- {name}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}", file=sys.stderr)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
