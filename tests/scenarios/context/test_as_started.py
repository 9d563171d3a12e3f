"""Contract *context*: the service as it is started, with the local model."""

import uuid

from tests.scenarios.context.tools import INDEX, JACKPOT, RETRY, SEARCH, TIMEOUT


def test_a_newly_started_service_finds_by_meaning(live):
    """With the local model, in the words of the contract's pre-validation (§7), a newly started service finds by
    meaning."""
    run = f"preval-test-{uuid.uuid4()}"
    with live.session() as session:
        assert session.get(f"{live.url}/health").json()["healthy"] is True
        for content, category, game in (
            (RETRY, "architecture", None),
            (JACKPOT, "casino", "FireKirin"),
            (TIMEOUT, "architecture", None),
        ):
            body = {
                "content": content,
                "contentType": "documentation",
                "sessionId": run,
                "source": "pre-validation",
                "metadata": {"category": category, "game": game},
            }
            assert session.post(f"{live.url}/tools/{INDEX}", json=body).status_code == 200
        for query, expected, about in (
            ("mongodb retry logic", "exponential backoff", {"category": "architecture"}),
            ("FireKirin jackpot amount", "$500", {"game": "FireKirin"}),
            ("selenium timeout duration", "30 seconds", {"category": "architecture"}),
        ):
            body = {"query": query, "limit": 3, "category": None, "game": None, **about}
            answer = session.post(f"{live.url}/tools/{SEARCH}", json=body).json()
            assert answer["fallbackLevel"] == 1
            assert expected in answer["results"][0]["content"]
