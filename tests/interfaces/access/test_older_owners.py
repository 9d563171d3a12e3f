"""What was made before there were owners."""

import pytest

from registry.stored_connections import STEPS as CONNECTION_STEPS
from registry.stored_connections import StoredConnections
from registry.topics import conversations
from registry.topics.conversations import Conversations
from registry.topics.topic import TopicByRule
from retrieval.chat import history
from retrieval.context import search_metrics
from retrieval.jobs import stored_jobs
from retrieval.sessions import notes
from retrieval.watching import stored_reports
from schemas.access.owners import OPEN, Asker, Ownership
from schemas.contracts.collect import CollectRequest
from tests.support.catalogues import one_database
from wrapper.catalog.catalog import Catalog


@pytest.fixture(params=["sqlite", "postgresql"])
def catalog(request):
    with one_database(request) as open_one:
        catalog = Catalog(open_one())
        catalog.open()
        yield catalog


def test_data_made_before_there_were_owners_belongs_to_the_open_service_and_administrators(catalog):
    parts = {
        "conversations": conversations.STEPS[:1],
        "chat history": history.STEPS[:1],
        "sessions": notes.STEPS[:1],
        "watchers": stored_reports.STEPS[:1],
        "jobs": stored_jobs.STEPS[:1],
        "connections": CONNECTION_STEPS[:1],
        "search metrics": search_metrics.STEPS[:1],
    }
    for part, steps in parts.items():
        catalog.open_part(part, steps)

    def fill(transaction):
        transaction.run("INSERT INTO conversation_topics VALUES ('c', 'InstructLab', 1)")
        transaction.run("INSERT INTO chat_messages VALUES ('c', 0, 'user', 'Hi', 0, '[]', 'then')")
        transaction.run("INSERT INTO note_sessions VALUES ('s', 0, 'before', 'then', NULL)")
        report = '{"instance":"i","state":"stopped","collection":"c","started_at":"then","failures":[]}'
        transaction.run("INSERT INTO watchers VALUES ('docs', 1, ?)", (report,))
        wanted = '{"collection":"c","tags":[],"metadata":{},"on_conflict":"skip"}'
        transaction.run("INSERT INTO jobs VALUES ('j', 0, '', 'here', ?, 'done', 1, 2)", (wanted,))
        transaction.run("INSERT INTO connections VALUES ('books', 'rag', 'local', NULL, '{}')")

    catalog.commit(fill)
    kept = Conversations(catalog, TopicByRule, lambda: 2.0)
    request = CollectRequest("Does it scale?", "", "", ())
    assert kept.follow("c", request, owner="ada").current_topic == ""
    assert kept.follow("c", request, owner=OPEN).current_topic == "InstructLab"
    messages, opened = history.ChatHistory(catalog), notes.Notes(None, catalog, "notes")
    watchers, jobs = stored_reports.Watchers(catalog), stored_jobs.StoredJobs(catalog, "here")
    for asker in (Asker(OPEN), Asker("key:admin", sees_all=True)):
        assert [each.content for each in messages.conversation("c", asker=asker).messages] == ["Hi"]
        assert [each.name for each in watchers.all(asker=asker)] == ["docs"]
        assert jobs.one("j", asker=asker).of == Ownership(OPEN)
    assert opened.open_session(None, Asker(OPEN)).name == "before"
    assert [each.of for each in StoredConnections(catalog).all()] == [Ownership(OPEN)]
    ada = Asker("ada")
    with pytest.raises(history.ConversationNotFoundError):
        messages.conversation("c", asker=ada)
    assert (watchers.all(asker=ada), jobs.page(asker=ada, limit=5)) == ([], ([], None))
