"""The topic of a conversation, by rule and by a chat model."""

import pytest

from providers.chat.base import ChatAnswer
from registry.topics.query_text import Strategy, choose_query_text, normalized
from registry.topics.topic import MAX_TOPIC_WORDS, TopicByChat, TopicByRule, leans_on_topic


def test_a_follow_up_is_asked_by_its_normalised_topic_and_a_first_message_as_it_is():
    for blank in ("", " ", "\t\n ", "\u00a0\u2003"):
        assert choose_query_text("What is it?", "Ignored Topic", blank) == (Strategy.FIRST, "What is it?")
    strategy, text = choose_query_text("Does it?", "  InstructLab\tand\n OpenShift AI  ", "instructlab")
    assert (strategy, text) == (Strategy.FOLLOW_UP, "instructlab and openshift ai")
    assert choose_query_text("Does it?", " \n", "InstructLab ")[1] == "instructlab"
    assert choose_query_text("  What IS\nthis? ", "x", "")[1] == "  What IS\nthis? "


@pytest.mark.parametrize(
    ("message", "leans"),
    [
        ("Does it integrate with OpenShift AI?", True),
        ("And what about GPUs?", True),
        ("Why?", True),
        ("How much does that cost?", True),
        ("How do I configure the retention of backups?", False),
        ("What are Kubernetes operators and how do I install them?", False),
        ("Explain vector index parameters", False),
    ],
)
def test_which_messages_lean_on_what_was_said(message, leans):
    assert leans_on_topic(message) is leans


def test_a_conversation_keeps_its_subject_until_a_new_one_comes_and_a_topic_does_not_grow_without_end():
    keeper, topic, topics = TopicByRule(), "", []
    for message in (
        "What is InstructLab?",
        "Does it integrate with OpenShift AI?",
        "And what about GPUs?",
        "How do I configure the retention of backups?",
        "Thanks!",
    ):
        topic = keeper.next_topic(topic, message)
        topics.append(topic)
    assert topics == [
        "instructlab",
        "instructlab integrate openshift ai",
        "instructlab integrate openshift ai gpus",
        "configure retention backups",
        "configure retention backups",
    ]
    keeper, topic = TopicByRule(), ""
    for number in range(50):
        topic = keeper.next_topic(topic, f"and it has word{number}a word{number}b")
    assert len(topic.split()) == MAX_TOPIC_WORDS
    assert topic.endswith("word49a word49b")


@pytest.mark.parametrize(
    "conversation",
    [
        [
            ("备份文件会保留多少天？", "备份文件会保留 天"),
            ("它在哪里？", "备份文件会保留 天 在"),
            ("机房太热会怎么样？", "机房太热会"),
        ],
        [
            ("バックアップは何日間保存されますか", "バックアップ 何日間保存"),
            ("それはどこにありますか", "バックアップ 何日間保存"),
            ("会議室の予約が取り消されたのはなぜ", "会議室 予約 取 消"),
        ],
        [
            ("ข้อมูลสำรองเก็บไว้กี่วัน", "ข้อมูลสำรองเก็บไว้ วัน"),
            ("มันอยู่ที่ไหน", "ข้อมูลสำรองเก็บไว้ วัน อยู่"),
            ("จองห้องประชุมอย่างไร", "จองห้องประชุม"),
        ],
        [
            ("백업 사본은 며칠 동안 보관하나요?", "백업 사본은 며칠 동안 보관"),
            ("그것은 어디에 있나요?", "백업 사본은 며칠 동안 보관"),
            ("회의실 예약은 언제 취소됩니까?", "회의실 예약은 취소됩니까"),
        ],
    ],
    ids=["Chinese", "Japanese", "Thai", "Korean"],
)
def test_topics_of_scripts_without_spaces_are_kept_and_change(conversation):
    (message, topic), (leaning, still), (other, changed) = conversation
    keeper = TopicByRule()
    assert keeper.next_topic("", message) == topic
    assert keeper.next_topic(topic, leaning) == still
    assert keeper.next_topic(topic, other) == changed


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
