"""Answers of a service that are wrong in one place are told as such, wherever the place is."""

import dataclasses
import json
import math
import os
import uuid
from itertools import count, product

import numpy as np
import pytest
import requests

from providers.base import ProviderContext, SupportsGather, SupportsOrderBy, SupportsTextSearch
from providers.chat.ollama import OllamaProvider as OllamaChat
from providers.chat.openai import OpenAIProvider as OpenAIChat
from providers.contract_tests.failures import STRANGE_BODIES
from providers.contract_tests.samples import batch, where
from providers.embeddings.ollama import OllamaProvider as OllamaEmbeddings
from providers.embeddings.openai import OpenAIProvider as OpenAIEmbeddings
from providers.outbound.json_client import RetryPolicy
from schemas.connections import DEGRADED, HEALTHY, UNHEALTHY, CollectionInfo
from schemas.contracts.chat import Message
from schemas.errors import RagError
from schemas.records import Document, GatherSpec, Group, Match, OrderBy, Page, TextMatch
from tests.providers.contracts.harnesses import HARNESSES
from tests.support.http_stub import running
from wrapper.web.error_statuses import status_of

GONE = object()
RUBBISH = (GONE, None, True, -1, 1e300, "words", [1], [[["a", 1]]], {"a": 1})
IS_SOAK = "RAG_SOAK_EACH" in os.environ
STEP = 1 if IS_SOAK else len(RUBBISH)
STATUSES = (201, 299, 400, 402, 404, 405, 408, 409, 413, 418, 421, 422, 429, 499, 501, 502, 503, 599)
STRANGE_ANSWERS = (((200, 500), STRANGE_BODIES), (STATUSES, (b"", b"<html>", b"{}", b'{"code": 5}')))
NEVER = {"sleep": lambda seconds: None}
UNREAD = {"optimizer_config", "hnsw_config", "wal_config", "quantization_config", "payload_schema", "schema"}
"""Long parts of answers that no provider reads: only replaced as a whole."""
HELLO = Message("user", "Hello?")


class Tape:
    """A service that passes requests on to `target` and keeps the answers, or, without one, plays those it kept: the
    same answer to the same request, but `spoilt` to the one at `place`, which is ... for every request."""

    def __init__(self, target=None, kept=()):
        self.target, self.url = target, ""
        self.kept = dict(kept)
        self.asked = []
        self.place, self.spoilt = None, None

    def answer(self, method, target, headers, body):
        key = (method, target)
        self.asked.append(key)
        if self.target is not None:
            passed = {name: value for name, value in headers.items() if name not in ("Host", "Content-Length")}
            passed["Accept-Encoding"] = "identity"
            found = requests.request(method, self.target + target, json=body, headers=passed, timeout=30)
            self.kept[key] = found.status_code, {}, found.content
        return self.spoilt if self.place in (key, ...) else self.kept.get(key, (404, {}, b"{}"))


def places(found, path=()):
    """Yield the path of every value of a JSON document, of lists the first only."""
    yield path
    if isinstance(found, dict):
        for name, value in found.items():
            yield from places(None if name in UNREAD else value, (*path, name))
    elif isinstance(found, list) and found:
        yield from places(found[0], (*path, 0))


def spoilt(found, path, rubbish):
    if not path:
        return None if rubbish is GONE else rubbish
    changed = dict(found) if isinstance(found, dict) else list(found)
    if len(path) == 1 and rubbish is GONE:
        del changed[path[0]]
    else:
        changed[path[0]] = spoilt(found[path[0]], path[1:], rubbish)
    return changed


def questions(provider):
    """Return the questions to a provider of documents, which has a collection `rubbish` with the documents a and b."""
    vector = np.ones(4, "f4")
    asked = [
        provider.check,
        provider.try_out,
        provider.health,
        provider.collections,
        lambda: provider.collection("rubbish"),
        lambda: provider.search("rubbish", vector),
        lambda: provider.documents("rubbish", limit=1, with_embeddings=True),
        lambda: provider.documents("rubbish", where({"n": 1})),
        lambda: provider.documents_by_id("rubbish", ["a", "b"], with_embeddings=True),
        lambda: provider.add_documents("rubbish", batch(("a", {"n": 1, "group": "g"}), ("b", {"n": 2}))),
        lambda: provider.delete_documents("rubbish", ids=["never"]),
    ]
    if isinstance(provider, SupportsTextSearch):
        asked.append(lambda: provider.text_search("rubbish", "text"))
    if isinstance(provider, SupportsGather):
        asked.append(lambda: provider.gather("rubbish", ["a"], GatherSpec(("group",))))
    if isinstance(provider, SupportsOrderBy):
        asked.append(lambda: provider.ordered_documents("rubbish", order_by=[OrderBy("n")]))
    return asked


def check_sound(found):
    """Check that what a provider returns is what the rest of the program takes it for."""
    match found:
        case list() | tuple():
            for each in found:
                check_sound(each)
        case CollectionInfo():
            assert isinstance(found.name, str)
            assert isinstance(found.metadata, dict)
            assert isinstance(found.metric, str)
            for number in (found.count, found.dimension, found.revision):
                assert number is None or (type(number) is int and number >= 0)
            assert found.id is None or isinstance(found.id, str)
        case Document():
            assert isinstance(found.id, str)
            assert isinstance(found.text, str)
            assert isinstance(found.metadata, dict)
            if found.embedding is not None:
                assert (found.embedding.ndim, found.embedding.dtype) == (1, np.float32)
                assert np.isfinite(found.embedding).all()
        case Match() | TextMatch():
            check_sound(found.document)
            for number in (getattr(found, "distance", 0.0), found.score):
                assert isinstance(number, float)
                assert math.isfinite(number)
        case Page():
            check_sound(found.documents)
            assert type(found.total) is int
            assert found.next_cursor is None or isinstance(found.next_cursor, str)
        case Group():
            check_sound(found.documents)
            assert type(found.rank) is type(found.total) is int
    if dataclasses.is_dataclass(found) and hasattr(found, "details"):
        assert found.status in (HEALTHY, DEGRADED, UNHEALTHY)
        assert found.error != "The check failed for a reason that is in the log"


def check_told(ask, what):
    """Ask, and check that the outcome is sound or an error which does not call itself a defect of this service."""
    try:
        check_sound(ask())
    except RagError as error:
        assert status_of(type(error)) != 500, (what, error)
        assert error.message
    except AssertionError as failure:
        raise AssertionError(what) from failure
    except Exception as failure:
        pytest.fail(f"{what}: {failure!r}")


REMOTE = [
    pytest.param((name, harness), id=f"{name}-{harness.__name__}")
    for name, harnesses in HARNESSES.items()
    for harness in harnesses
    if harness.__name__ in ("wrapper_service", "chroma_server", "qdrant_server")
]


@pytest.fixture(scope="module", params=REMOTE)
def recorded(request, registry, tmp_path_factory, processes):
    """A provider behind a tape of its service's right answers."""
    name, harness = request.param
    with harness(request, tmp_path_factory.mktemp(name)) as backend, running(Tape(backend.config["url"])) as tape:
        kind = registry.provider("rag", name)
        with kind({**backend.config, "url": tape.url}, ProviderContext(), **NEVER) as provider:
            for each in provider.collections():
                if each.name == "rubbish":
                    provider.delete_collection("rubbish")
            provider.create_collection("rubbish", {"about": uuid.uuid4().hex})
            provider.add_documents("rubbish", batch(("a", {"n": 1, "group": "g"}), ("b", {"n": 2})))
            tape.kept.clear()
            touched = []
            for ask in questions(provider):
                tape.asked.clear()
                check_sound(ask())
                touched.append({*tape.asked})
            provider.delete_collection("rubbish")
        tape.target = None

        def connect():
            return kind({**backend.config, "url": tape.url}, ProviderContext(), **NEVER)

        yield tape, connect, touched


def check_each_place(tape, connect, questions, touched):
    """Ask the questions with every value of every answer in turn replaced by one kind of rubbish or another, in a soak by
    all of them."""
    turns = count()
    for place, (_, _, content) in [*tape.kept.items()]:
        document = json.loads(content) if content else {}
        for path in places(document):
            for rubbish in RUBBISH[next(turns) % STEP :: STEP]:
                said = json.dumps(spoilt(document, path, rubbish)).encode()
                tape.place, tape.spoilt = place, (200, {}, said)
                with connect() as provider:
                    for ask, asks in zip(questions(provider), touched, strict=True):
                        if place in asks:
                            check_told(ask, (place, path, "nothing" if rubbish is GONE else rubbish))
    tape.place = None


def check_each_answer(tape, connect, questions):
    """Ask the questions while every answer is the same strange one: each question meets each status and each body, in a
    soak each body with each status."""
    tape.place = ...
    for statuses, bodies in STRANGE_ANSWERS:
        pairs_every = 1 if IS_SOAK else min(len(statuses), len(bodies))
        for (turn, status), (number, content) in product(enumerate(statuses), enumerate(bodies)):
            tape.spoilt = (status, {}, content)
            with connect() as provider:
                for ask in questions(provider)[-(turn + number) % pairs_every :: pairs_every]:
                    check_told(ask, (status, content))
    tape.place = None


def test_one_wrong_value_in_an_answer_is_no_defect_of_this_service(recorded):
    tape, connect, touched = recorded
    assert all(touched)
    check_each_place(tape, connect, questions, touched)


def test_an_answer_of_something_else_is_no_defect_of_this_service(recorded):
    tape, connect, _ = recorded
    check_each_answer(tape, connect, questions)


def ask_embeddings(provider):
    return [provider.check, provider.try_out, provider.health, lambda: provider.embed(["a"]), provider.models]


def ask_chat(provider):
    return [provider.check, provider.try_out, provider.health, lambda: provider.chat([HELLO]), provider.models]


MODELS = {"data": [{"id": "m", "type": "llm", "max_tokens": 5, "description": "small"}]}
OLLAMA_MODELS = {"models": [{"name": "m", "details": {"family": "bert", "parameter_size": "7B"}}]}
REMOTE_MODELS = {
    "openai-embedding": (
        *(OpenAIEmbeddings, ask_embeddings),
        {
            ("POST", "/embeddings"): {"data": [{"index": 0, "embedding": [1.0, 0.5]}], "model": "m"},
            ("GET", "/models"): MODELS,
        },
    ),
    "ollama-embedding": (
        *(OllamaEmbeddings, ask_embeddings),
        {("POST", "/api/embed"): {"model": "m", "embeddings": [[1.0, 0.5]]}, ("GET", "/api/tags"): OLLAMA_MODELS},
    ),
    "old-ollama-embedding": (
        *(OllamaEmbeddings, ask_embeddings),
        {("POST", "/api/embeddings"): {"embedding": [1.0, 0.5]}, ("GET", "/api/tags"): OLLAMA_MODELS},
    ),
    "openai-chat": (
        *(OpenAIChat, ask_chat),
        {
            ("POST", "/chat/completions"): {
                "model": "m",
                "choices": [{"message": {"role": "assistant", "content": "Hi."}}],
                "usage": {"prompt_tokens": 9, "completion_tokens": 2},
            },
            ("GET", "/models"): MODELS,
        },
    ),
    "ollama-chat": (
        *(OllamaChat, ask_chat),
        {
            ("POST", "/api/chat"): {
                **{"model": "m", "message": {"role": "assistant", "content": "Hi."}},
                **{"prompt_eval_count": 9, "eval_count": 2},
            },
            ("GET", "/api/tags"): OLLAMA_MODELS,
        },
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REMOTE_MODELS)
def test_a_model_service_that_answers_rubbish_is_no_defect_of_this_service(name):
    kind, questions, answers = REMOTE_MODELS[name]
    kept = {place: (200, {}, json.dumps(answer).encode()) for place, answer in answers.items()}
    with running(Tape(kept=kept)) as tape:
        one = {"batch_size": 1} if questions is ask_embeddings else {}  # the answers are for one text

        def connect():
            return kind({"url": tape.url, "model": "m", **one}, ProviderContext(), retry=RetryPolicy(attempts=1))

        touched = []
        with connect() as provider:
            for ask in questions(provider):
                tape.asked.clear()
                check_sound(ask())
                touched.append({*tape.asked})
        check_each_place(tape, connect, questions, touched)
        check_each_answer(tape, connect, questions)
