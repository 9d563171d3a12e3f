"""The topic of a conversation, by rule and by a chat model."""

from pathlib import Path

import pytest
import yaml

from benchmarks.follow_ups.__main__ import measure, ratio
from providers.chat.base import ChatAnswer
from registry.topics.query_text import Strategy, choose_query_text, normalized
from registry.topics.topic import KEPT_WORDS, TopicByChat, TopicByRule
from tests.support.apps import running_app

TOPICS = yaml.safe_load(Path(__file__).with_name("topics.yaml").read_text(encoding="utf-8"))


def test_a_follow_up_is_asked_by_its_normalised_topic_and_a_first_message_as_it_is():
    for blank in ("", " ", "\t\n ", "\u00a0\u2003"):
        assert choose_query_text("What is it?", "Ignored Topic", blank) == (Strategy.FIRST, "What is it?")
    strategy, text = choose_query_text("Does it?", "  InstructLab\tand\n OpenShift AI  ", "instructlab")
    assert (strategy, text) == (Strategy.FOLLOW_UP, "instructlab and openshift ai")
    assert choose_query_text("Does it?", " \n", "InstructLab ")[1] == "instructlab"
    assert choose_query_text("  What IS\nthis? ", "x", "")[1] == "  What IS\nthis? "


@pytest.mark.parametrize("cases", TOPICS.values(), ids=TOPICS)
def test_messages_keep_a_topic_or_begin_one(cases):
    assert [[topic, message, TopicByRule().next_topic(topic, message)] for topic, message, _ in cases] == cases


@pytest.mark.slow
def test_follow_ups_find_what_their_questions_find_alone_and_changes_of_subject_drag_nothing_along(tmp_path, processes):
    with running_app(tmp_path) as app:
        client = app.test_client()
        outcomes = measure(lambda path, body: client.post(path, json=body).json)
    asked = [each for each in outcomes if each.case["kind"] not in ("detail", "brief change")]
    for some in (outcomes, asked, [each for each in asked if each.case["language"] == "de"]):
        assert ratio(some) >= 0.85
    assert [each.case["says"] for each in asked if each.dragged] == []


def test_a_conversation_keeps_its_subject_until_a_new_one_comes_and_a_topic_does_not_grow_without_end():
    keeper, topic, topics = TopicByRule(), "", []
    for message in ("What is InstructLab?", "Does it integrate with OpenShift AI?", "And what about GPUs?", "Why?"):
        topic = keeper.next_topic(topic, message)
        topics.append(topic)
    assert topics == [
        "instructlab",
        "instructlab integrate openshift ai",
        *["instructlab integrate openshift ai gpus"] * 2,
    ]
    for number in range(50):
        topic = keeper.next_topic(topic, f"and it has word{number}a word{number}b")
    assert len(topic.split()) == 2 * KEPT_WORDS
    assert topic.startswith("instructlab integrate openshift ai gpus")
    assert topic.endswith("word49a word49b")


@pytest.mark.parametrize("message", ["?!", "...", "it", "そうですか", "👩‍🚀"])
def test_any_message_gives_a_topic(message):
    assert TopicByRule().next_topic("", message) == normalized(message)


class Parrot:
    """Says what it was told to say."""

    def __init__(self, content):
        self.content = content
        self.asked = []

    def chat(self, messages, **_):
        self.asked.append(messages)
        return ChatAnswer(self.content, "parrot")


@pytest.mark.parametrize(
    ("said", "topic"),
    [
        ("InstructLab and OpenShift AI integration", "instructlab and openshift ai integration"),
        ('\n\nTopic: "InstructLab".\nBecause …', "instructlab"),
        ("", "instructlab openshift ai"),
        ("x" * 1000, "instructlab openshift ai"),
    ],
)
def test_a_chat_model_names_the_topic_or_leaves_it_to_the_rule(said, topic):
    parrot = Parrot(said)
    assert TopicByChat(parrot).next_topic("InstructLab", "And it on OpenShift AI?") == topic
    assert "InstructLab" in parrot.asked[0][1].content
