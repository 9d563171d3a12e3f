"""The clients that are tried, with the releases of what they are made of: the only place that names any."""

from __future__ import annotations

from dataclasses import dataclass

CHROMA, PYTEST, PYTEST_ASYNCIO = "chromadb==1.5.9", "pytest==9.2.0", "pytest-asyncio==1.5.0"


@dataclass(frozen=True)
class Client:
    """A program of the folder `asking`, and the packages that it needs."""

    program: str
    packages: tuple[str, ...]
    whole: str | None = None
    """A package that is taken out of the index by itself, of whose files the program uses a few."""

    @property
    def is_suite(self) -> bool:
        """Tell whether the program consists of tests, some of which fail with every Chroma."""
        return self.program.endswith("_suite.py")


CLIENTS = {
    "chromadb for JavaScript": Client("javascript.mjs", ("chromadb@3.5.0",)),
    "LlamaIndex": Client(
        "llama_index_store.py", (CHROMA, "llama-index-core==0.14.25", "llama-index-vector-stores-chroma==0.6.0")
    ),
    "Open WebUI": Client("open_webui_store.py", (CHROMA, "fastapi==0.136.3"), whole="open-webui==0.12.4"),
    "n8n": Client(
        "n8n_node.mjs",
        ("@langchain/community@1.1.27", "@langchain/core@1.2.8", "chromadb@3.5.0"),
        whole="@n8n/n8n-nodes-langchain@2.41.1",
    ),
    "Flowise": Client(
        "flowise_node.mjs",
        ("@langchain/core@1.1.20", "chromadb@3.1.6", "uuid@10", "lodash@4"),
        whole="flowise-components@3.1.4",
    ),
    "LangChain.js": Client(
        "langchain_js.mjs", ("@langchain/community@1.1.29", "@langchain/core@1.4.0", "chromadb@3.5.0")
    ),
    "LangChain": Client(
        "langchain_suite.py",
        (CHROMA, "langchain-chroma==1.1.0", "langchain-tests==1.1.9", PYTEST, PYTEST_ASYNCIO),
    ),
    "Haystack": Client(
        "haystack_suite.py",
        (CHROMA, "chroma-haystack==5.0.0", "haystack-ai==3.4.1", PYTEST, PYTEST_ASYNCIO),
    ),
}
