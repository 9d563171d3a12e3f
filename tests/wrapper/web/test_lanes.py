"""Requests that wait for the same thing wait for each other, and for no others; every route declares what it waits for and
takes, or the service does not start."""

import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
from flask import Blueprint, Flask

from schemas.access.callers import Scope
from schemas.access.table import Access
from schemas.access.turns import waiting_for
from schemas.errors import BusyError, ClientGoneError, ConfigurationError
from schemas.settings import WrapperSettings
from tests.support.live import PATIENCE_SECONDS, eventually
from wrapper.web.bodies import NDJSON
from wrapper.web.lanes import Lane, Lanes, Places, Width, threads
from wrapper.web.route_table import RouteTable, declare, register


def _stays():
    return False


@pytest.fixture
def ask():
    """`ask(places, …)`: a thread that takes a place; its `outcome` is `taken` or the error."""
    made = []

    def start(places, is_gone=_stays, **options):
        def take():
            try:
                places.take(is_gone, **options)
                thread.outcome = "taken"
            except (BusyError, ClientGoneError) as error:
                thread.outcome = error

        thread = threading.Thread(target=take)
        thread.outcome = None
        thread.start()
        made.append(thread)
        return thread

    yield start
    for thread in made:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def _waiting(places, number):
    eventually(lambda: len(places._waiting) == number)


def test_turns_come_in_the_order_of_asking(ask):
    places = Places(Width(at_once=1, waiting=3))
    places.take(_stays)
    asked = []
    for number in range(1, 4):
        asked.append(ask(places))
        _waiting(places, number)
    for number, first in enumerate(asked, 1):
        assert [each.outcome for each in asked].count("taken") == number - 1
        places.leave()
        eventually(lambda first=first: first.outcome == "taken")
    places.leave()


def test_those_who_ask_a_connection_leave_as_many_places_as_they_have(ask):
    places, hung = Places(Width(at_once=4, waiting=4)), frozenset("h")
    for _ in range(2):
        places.take(_stays, hung)
    asked = [ask(places, connections=hung) for _ in range(2)]
    _waiting(places, 2)
    for also in ("", "x"):
        with pytest.raises(BusyError, match="Too many requests wait for connection 'h'"):
            places.take(_stays, hung.union(also))
    places.take(_stays, frozenset("o"))
    for _ in asked:
        places.leave(hung)
    eventually(lambda: [each.outcome for each in asked] == ["taken", "taken"])


def test_a_request_gives_its_place_up_for_a_turn_keeps_it_afterwards_and_gives_it_back_once():
    lanes = Lanes(WrapperSettings(service_threads=2, max_queue=0))
    first = lanes.enter(Lane.SERVICE, _stays)
    with waiting_for(lambda: "h"), waiting_for(lambda: "a turn within another one"):
        second = lanes.enter(Lane.SERVICE, _stays)
        with pytest.raises(BusyError, match="'h'"), waiting_for(lambda: "h"):
            pass
        second()
    assert lanes._places[Lane.SERVICE].held() == (1, 0)
    first()
    first()
    assert lanes._places[Lane.SERVICE].held() == (0, 0)


def test_a_client_that_leaves_or_waits_too_long_gives_up_its_turn(ask):
    places = Places(Width(at_once=1, waiting=1))
    places.take(_stays)
    gone = ask(places, lambda: True)
    eventually(lambda: isinstance(gone.outcome, ClientGoneError))
    late = ask(places, wait_seconds=0)
    eventually(lambda: isinstance(late.outcome, BusyError))
    later = ask(places)
    _waiting(places, 1)
    places.leave()
    eventually(lambda: later.outcome == "taken")


def test_other_services_also_those_that_embed_are_asked_within_a_limit():
    entered = []

    @contextmanager
    def deadline(seconds):
        entered.append(seconds)
        yield
        entered.append("left")

    lanes = Lanes(WrapperSettings(service_seconds=7.0))
    lanes.limit_services(deadline)
    for lane in (Lane.READ, Lane.EMBEDDING):
        lanes.enter(lane, _stays)()
    assert entered == []
    lanes.embed_elsewhere()
    leave = lanes.enter(Lane.EMBEDDING, _stays)
    assert entered == [7.0]
    leave()
    assert entered == [7.0, "left"]


def test_there_is_a_thread_for_all_that_lanes_may_hold():
    settings = WrapperSettings(max_queue=0)
    lanes, held = Lanes(settings), 0
    for lane in set(Lane) - {Lane.LIFE}:
        with suppress(BusyError):
            while True:
                lanes.enter(lane, _stays)
                held += 1
    assert held > settings.threads + settings.service_threads
    assert threads(settings) > held
    assert threads(replace(settings, max_queue=3)) == threads(settings) + 3 * len(list(lanes.held()))


@pytest.fixture
def app():
    app = Flask("routes", static_folder=None)
    app.extensions["rag.routes"] = RouteTable({f"PUT /{name}": Access(Scope.WRITE) for name in ("tidy", "move")})
    return app


def _module(**views):
    blueprint = Blueprint("shelves", __name__)
    for name, view in views.items():
        blueprint.add_url_rule(f"/{name}", name, view, methods=["PUT"])
    return SimpleNamespace(blueprint=blueprint)


def test_what_a_route_declares_is_found_by_its_endpoint(app):
    tidy = declare(Lane.WRITE, media_types=(NDJSON,))(lambda: "")
    register(app, _module(tidy=tidy, move=declare(Lane.READ, exact=True)(lambda: "")))
    table = app.extensions["rag.routes"]
    found = table.find("shelves.tidy"), table.find("shelves.move")
    assert [(each.lane, each.media_types, each.exact) for each in found] == [
        (Lane.WRITE, (NDJSON,), False),
        (Lane.READ, ("application/json",), True),
    ]
    assert (table.find(None), table.find("shelves.burn")) == (None, None)


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ({"move": lambda: ""}, r"PUT /move \(shelves\.move\) declares nothing"),
        ({"burn": declare(Lane.WRITE)(lambda: "")}, "The route PUT /burn is not in the table of access"),
    ],
)
def test_a_route_that_declares_nothing_or_nobody_knows_stops_the_start(app, added, said):
    with pytest.raises(ConfigurationError, match=said):
        register(app, _module(tidy=declare(Lane.WRITE)(lambda: ""), **added))
