"""The dashboard and the alerts ask for series and labels that a service has, and each alert has its section."""

import json
import re
import shutil
import socket
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from tests.support.live import PATIENCE_SECONDS, eventually
from tests.support.model_server import model_server

PROJECT = Path(__file__).parents[2]
PROMETHEUS = PROJECT / "deploy" / "prometheus"
RULES = yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"][0]["rules"]
CASES = yaml.safe_load((PROMETHEUS / "alerts_test.yaml").read_text())["tests"]
DASHBOARD = json.loads((PROJECT / "deploy" / "grafana" / "rag-wrapper.json").read_text())
GIVEN_BY_PROMETHEUS = {"job", "instance", "le"}
WITHOUT_BACKUPS = {"rag_backup_age_seconds", "rag_backup_interval_seconds"}
"""What a service has only when something makes backups, or is to make them."""
_SERIES = re.compile(r"(rag_[a-z0-9_]+)(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"(?:by|on|without) \(([^)]*)\)")
_SAMPLE = re.compile(r"(rag_[a-z0-9_]+)(?:\{(.*)\})? \S+")
_LABEL = re.compile(r"(\w+)(?:=~|!~|!=|=)\"")


EXPRESSIONS = {rule["alert"]: rule["expr"] for rule in RULES} | {
    f"{panel['title']} {number}": target["expr"]
    for panel in DASHBOARD["panels"]
    for number, target in enumerate(panel.get("targets", []))
}
"""All expressions, by what asks."""


def promtool():
    beside = Path(sys.executable).with_name("promtool")
    return str(beside) if beside.exists() else shutil.which("promtool")


@pytest.fixture(scope="module")
def known(live):
    """The labels of each series of a service to which everything has happened that makes series."""
    with live.session() as session:
        base, name = live.url, "monitored"
        session.post(f"{base}/collections", json={"name": name})
        documents = [{"id": str(each), "text": "x", "embedding": [float(each), 1.0]} for each in range(200)]
        session.post(f"{base}/collections/{name}/documents", json={"documents": documents})
        session.post(f"{base}/collections/{name}/query", json={"query_embedding": [1.0, 0.0]})
        session.get(f"{base}/collections/{name}/export")
        session.post(f"{base}/collections/{name}/index/check").raise_for_status()
        text = {"source": "monitored", "path": "hours.md", "title": "Hours", "text": "Open from nine to five."}
        session.post(f"{base}/api/rag/ingest", json=text).raise_for_status()
        session.post(f"{base}/api/search", json={"query": "anything"})
        session.post(f"{base}/tools/rag_context_search", json={"query": "anything"})
        with model_server() as stub:
            wanted = {"provider": "openai", "config": {"url": f"{stub.url}/v1", "model": "stub"}}
            session.post(f"{base}/api/connections/embedding/test", json=wanted)
        with socket.create_connection(("127.0.0.1", live.port), timeout=PATIENCE_SECONDS) as raw:
            raw.sendall(b"NO HTTP\r\n\r\n")
            raw.recv(1000)

        def shown():
            labels = defaultdict(set)
            for line in session.get(f"{base}/metrics").text.splitlines():
                if sample := _SAMPLE.fullmatch(line):
                    labels[sample[1]] |= set(_LABEL.findall(sample[2] or ""))
            awaited = ("rag_model_up", "rag_stored_bytes", "rag_index_recall_at_10", "rag_index_bytes")
            return dict(labels) if all(each in labels for each in awaited) else None

        return eventually(shown, complaint=live.tail)


def test_a_service_has_all_that_is_asked_for_and_what_it_does_not_have_is_found(known):
    assert not WITHOUT_BACKUPS & set(known)
    assert len(EXPRESSIONS) > 50
    lacking = {asks: lacks for asks, expression in EXPRESSIONS.items() if (lacks := _lacks(expression, known))}
    assert lacking == {}
    known = {"rag_requests_total": {"method", "status"}}
    assert _lacks('sum by (method) (rate(rag_requests_total{job="rag",status="500"}[5m]))', known) == set()
    asked = 'sum by (lane) (rag_requests_total{route="/"}) / rag_unheard_of'
    assert _lacks(asked, known) == {"lane", "route", "rag_unheard_of"}


def _lacks(expression, known):
    """Return the series, and the labels of series, that an expression asks for and that are not known."""
    asked = {name: set(_LABEL.findall(selector)) for name, selector in _SERIES.findall(expression)}
    if set(asked) <= WITHOUT_BACKUPS:
        return set()
    grouped = {label.strip() for labels in _GROUPED.findall(expression) for label in labels.split(",")}
    of_the_asked = set().union(*(known.get(name, set()) for name in asked))
    lacking = set(asked) - set(known) | grouped - of_the_asked
    lacking |= {label for name, labels in asked.items() for label in labels - known.get(name, set())}
    return lacking - GIVEN_BY_PROMETHEUS


def test_every_alert_has_what_an_operator_needs_and_is_shown_to_fire_and_not_to_fire():
    sections = set(re.findall(r"^### (\w+)$", (PROJECT / "docs" / "operations.md").read_text(), re.MULTILINE))
    for rule in RULES:
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert (page, anchor) == ("docs/operations.md", rule["alert"].lower())
        assert rule["alert"] in sections
    assert [case["name"] for case in CASES] == [rule["alert"] for rule in RULES]
    for case in CASES:
        series = " ".join(each["series"] for each in case["input_series"])
        assert 'instance="bad"' in series
        assert 'instance="good"' in series
        (asked,) = case["promql_expr_test"]
        assert f'alertname="{case["name"]}"' in asked["expr"]
        firing = [re.search(r'instance="([^"]+)"', each["labels"])[1] for each in asked["exp_samples"]]
        assert firing[0] == "bad"
        assert all(each.startswith("bad") for each in firing)


@pytest.mark.slow
def test_promtool_agrees():
    found = promtool()
    if found is None:
        pytest.skip("promtool is not here: it comes with Debian's package prometheus")
    for words in (("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")):
        done = subprocess.run([found, *words], cwd=PROMETHEUS, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_configuration_names_the_rules_and_the_dashboard_takes_its_data_from_where_one_chooses():
    configuration = yaml.safe_load((PROMETHEUS / "prometheus.yaml").read_text())
    assert configuration["rule_files"] == ["alerts.yaml"]
    (scraped,) = configuration["scrape_configs"]
    assert scraped["job_name"] == "rag"
    assert "credentials_file" in scraped["authorization"]
    assert "datasource" in {each["name"] for each in DASHBOARD["templating"]["list"]}
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
