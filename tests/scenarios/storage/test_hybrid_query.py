"""Contract *storage*, "Hybrid Query Strategy for Contextual Continuity", over HTTP with real MiniLM embeddings."""

import pytest

from tests.support.logs import logs_of

TEXTS = {
    "instructlab-openshift": "InstructLab model tuning runs on OpenShift AI as a pipeline: the integration installs the "
    "InstructLab operator and schedules training on the cluster.",
    "instructlab": "InstructLab is an open source project for enhancing large language models with skills and knowledge.",
    "kafka-openshift": "Does Apache Kafka integrate with OpenShift? The AMQ Streams operator runs Kafka on OpenShift.",
    "openshift-ai": "OpenShift AI is a platform for serving machine learning models and notebooks.",
    "jira": "The ticket system integrates with chat, mail and calendars, and it does so with one click.",
    "garden": "Tomatoes need six hours of sun and regular watering.",
}
FIRST, FOLLOW_UP = "first message (raw query)", "follow-up (contextualized topic)"


@pytest.fixture
def logs(monkeypatch):
    """The log of the collector and its cache, as a list that grows."""
    return logs_of(monkeypatch, "registry.collector", "registry.embedding.cache")


@pytest.fixture(scope="module")
def embed(app):
    """Return one text's embedding by the connection that the service itself uses."""
    connections = app.extensions["rag.layers"].connections
    return lambda text: connections.open("default", "embedding").embed([text])[0].tolist()


@pytest.fixture
def library(filled, embed):
    documents = [
        {
            "id": name,
            "text": text,
            "metadata": {"title": name.title(), "source": f"{name}.md"},
            "embedding": embed(text),
        }
        for name, text in TEXTS.items()
    ]
    return filled(documents, metadata={"description": "A library", "embedding_model": "all-MiniLM-L6-v2"})


@pytest.fixture
def collect(client):
    def ask(*names, message, topic="", current="", **more):
        selected = [{"service": "local", "name": name, "embedding_connection": "default"} for name in names]
        body = {"userMessage": message, "topic": topic, "currentTopic": current, "selectedCollections": selected}
        answer = client.post("/api/collect", json={**body, "match_threshold": 0.9, **more})
        assert answer.status_code == 200, answer.json
        return answer.json

    return ask


def found(answer):
    return [document["id"] for document in answer["data"]["documents"]]


def test_first_message_query_strategy(library, collect, logs):
    """WHEN no current topic exists THEN the raw user message is embedded, AND the strategy is logged."""
    answer = collect(library, message="How much water do tomatoes need?", topic="something else entirely")
    assert answer["receipt"]["strategy"] == FIRST
    assert answer["receipt"]["query_text"] == "How much water do tomatoes need?"
    assert FIRST in [entry.get("strategy") for entry in logs if entry["event"] == "query strategy"]
    assert found(answer)[0] == "garden"
    result = answer["data"]
    assert (result["result_type"], result["service"], result["collection"]) == ("match", "local", library)
    assert (result["documents"][0]["title"], result["documents"][0]["source"]) == ("Garden", "garden.md")
    assert result["description"] == "A library"


def test_follow_up_message_query_strategy(library, collect, logs):
    """WHEN a current topic exists THEN the accumulated topic is embedded, AND the strategy is logged."""
    answer = collect(library, message="And how much water?", topic="Growing  TOMATOES ", current="tomatoes")
    assert answer["receipt"]["strategy"] == FOLLOW_UP
    assert answer["receipt"]["query_text"] == "growing tomatoes"
    assert FOLLOW_UP in [entry.get("strategy") for entry in logs if entry["event"] == "query strategy"]
    assert found(answer)[0] == "garden"


def test_pronoun_resolution_via_topic_context(library, collect):
    """WHEN a user asks "Does it integrate with OpenShift AI?" THEN the topic keeps the subject and the documents of the
    implicit subject are found, which the raw question does not find."""
    question, topic = "Does it integrate with OpenShift AI?", "InstructLab and OpenShift AI integration"
    raw = collect(library, message=question, top_k=1)
    resolved = collect(library, message=question, topic=topic, current="InstructLab", top_k=1)
    assert found(raw) != ["instructlab-openshift"]
    assert found(resolved) == ["instructlab-openshift"]


@pytest.mark.parametrize(
    ("topic", "current", "expected"),
    [
        ("A Topic", "", "What is it?"),
        ("A Topic", "  \t\n", "What is it?"),
        ("  A\n Topic ", "a", "a topic"),
        ("", "The Current  One", "the current one"),
    ],
)
def test_query_text_selection_logic(library, collect, topic, current, expected):
    """THEN it checks if `currentTopic` is empty or whitespace-only: if so the message, else the normalized topic."""
    assert collect(library, message="What is it?", topic=topic, current=current)["receipt"]["query_text"] == expected


def test_embedding_cache_efficiency(library, collect, logs):
    """WHEN multiple collections use the same embedding connection and model THEN the embedding is generated once, reused,
    AND cache hits are logged with the key `connectionId:model`."""
    message = f"a question that nobody asked before, about {library}"
    first = collect(*[library] * 5, message=message)
    second = collect(library, message=message)
    assert first["receipt"]["embeddings"] == {"generated": 1, "reused": 4}
    assert second["receipt"]["embeddings"] == {"generated": 0, "reused": 1}
    hits = [entry["key"] for entry in logs if entry["event"] == "embedding cache hit"]
    assert hits == ["default:all-MiniLM-L6-v2"]


def test_a_topic_kept_by_the_service_resolves_the_pronoun_too(app, library, client, collect):
    """A client without a topic detector gets the same result: it only says which conversation it is in."""
    from registry.topics.conversations import Conversations
    from registry.topics.topic import TopicByRule

    layers = app.extensions["rag.layers"]
    layers.conversations = Conversations(app.extensions["rag.service"].catalog, TopicByRule)
    try:
        collect(library, message="What is InstructLab?", conversationId=library)
        answer = collect(library, message="Does it integrate with OpenShift AI?", conversationId=library, top_k=1)
    finally:
        layers.conversations = None
    assert answer["receipt"]["strategy"] == FOLLOW_UP
    assert found(answer) == ["instructlab-openshift"]
