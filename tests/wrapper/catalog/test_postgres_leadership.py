"""The lead on a shared catalogue: one at a time, lost with the connection, and only for one engine."""

import pytest

from schemas.errors import ConfigurationError
from tests.support.live import eventually

psycopg = pytest.importorskip("psycopg")

from wrapper.catalog.postgres.database import PostgresDatabase  # noqa: E402
from wrapper.catalog.postgres.leadership import (  # noqa: E402
    SHARED_ENGINE,
    AdvisoryLeadership,
    check_start,
    engine_number,
)


@pytest.fixture
def database(postgres):
    with postgres.catalogue() as url:
        database = PostgresDatabase(url)
        yield database
        database.close()


@pytest.fixture
def candidate(database):
    """`candidate(engine)`: a process that may lead."""
    made = []

    def make(engine=SHARED_ENGINE):
        made.append(AdvisoryLeadership(database.connect, engine))
        return made[-1]

    yield make
    for each in made:
        each.release()


def _cut_off(database, leadership):
    with database.connect() as connection:
        pid = leadership._connection.info.backend_pid
        assert connection.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,)).fetchone() == (True,)


def test_one_leads_until_it_lets_go(candidate):
    first, second = candidate(), candidate()
    assert first.acquire()
    assert first.acquire()
    assert not second.acquire()
    assert (first.held, first.confirm(), second.held, second.confirm()) == (True, True, False, False)
    first.release()
    assert not first.held
    eventually(second.acquire)


def test_a_leader_that_was_cut_off_notices_also_without_writing(candidate, database):
    first, second = candidate(), candidate()
    assert first.acquire()
    _cut_off(database, first)
    eventually(lambda: not first.held)
    eventually(first.acquire)
    _cut_off(database, first)
    eventually(second.acquire)
    assert not first.confirm()
    assert not first.held
    assert not first.acquire()
    assert second.confirm()


def test_nobody_leads_for_another_engine_while_one_is_in_use(candidate, database):
    own, another = engine_number("a"), engine_number("b")
    leader, follower, foreign = candidate(own), candidate(own), candidate(another)
    assert leader.acquire()
    assert not follower.acquire()
    check_start(database.connect, own, "")
    for engine in (another, SHARED_ENGINE):
        with pytest.raises(ConfigurationError, match="engine of its own"):
            check_start(database.connect, engine, "")
    leader.release()
    assert not foreign.acquire()
    follower.release()
    eventually(foreign.acquire)


def test_a_wrong_address_is_refused_without_showing_its_password():
    for url in ("postgresql+psycopg://rag:sec%ZZret@host/base", "postgresql://rag:secret@host/base?nonsense=1"):
        with pytest.raises(ConfigurationError) as refused:
            PostgresDatabase(url)
        assert "sec" not in refused.value.message
    nobody = PostgresDatabase("postgresql://rag:secret@127.0.0.1:9/base")
    with pytest.raises(ConfigurationError, match="does not answer") as refused:
        check_start(nobody.connect, SHARED_ENGINE, "")
    assert "secret" not in refused.value.message
