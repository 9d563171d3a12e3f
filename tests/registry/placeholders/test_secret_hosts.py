"""A secret that is bound to hosts is sent to no other."""

import pytest

from registry.placeholders.resolving import Placeholders
from registry.placeholders.secret_hosts import SecretHosts
from schemas.connections import Fault
from schemas.errors import ConfigurationError
from tests.registry.placeholders.planted import ADDRESS

BOUND = SecretHosts.parse(
    ["OPENAI_API_KEY=api.openai.com", "CORP_API_KEY=https://llm.corp:8443", "CORP_API_KEY=*.corp.example"]
)
BOUND_ENVIRON = {"OPENAI_API_KEY": "sk-planted", "CORP_API_KEY": "planted", "FREE_API_KEY": "free", "EVIL_HOST": "evil"}
KEYED = {"properties": {**ADDRESS["properties"], "api_key": {"writeOnly": True}}}


@pytest.mark.parametrize(
    ("variable", "url", "may_go"),
    [
        ("OPENAI_API_KEY", "https://api.openai.com/v1", True),
        ("OPENAI_API_KEY", "https://API.OpenAI.com:444/v1", True),
        ("OPENAI_API_KEY", "https://api.openai.com.evil.example/v1", False),
        ("OPENAI_API_KEY", "https://api.openai.com./v1", True),
        ("OPENAI_API_KEY", "http://${EVIL_HOST}/", False),
        ("CORP_API_KEY", "https://llm.corp:8443", True),
        ("CORP_API_KEY", "http://llm.corp:8443", False),
        ("CORP_API_KEY", "https://llm.corp", False),
        ("CORP_API_KEY", "http://a.corp.example:1", True),
        ("CORP_API_KEY", "http://corp.example", False),
        ("FREE_API_KEY", "http://evil", True),
        ("OPENAI_API_KEY", None, False),
    ],
)
def test_a_secret_bound_to_hosts_goes_to_no_other(variable, url, may_go):
    placeholders = Placeholders(BOUND_ENVIRON, secret_hosts=BOUND)
    config = {"api_key": f"${{{variable}}}"} | ({} if url is None else {"url": url})
    for judged in (placeholders.faults, placeholders.forbidden):
        faults = judged(config, KEYED, lambda resolved: resolved.get("url"))
        expected = [] if may_go else [Fault("/api_key", f"{variable} may not be sent to this host (RAG_SECRET_HOSTS)")]
        assert faults == expected


def test_a_file_is_bound_by_its_location(secret_dir):
    bound = SecretHosts.parse([f"file:{secret_dir}/key=good.example"])
    placeholders = Placeholders({}, secret_dirs=[secret_dir], secret_hosts=bound)
    for written in (f"{secret_dir}/key", f"{secret_dir}/../{secret_dir.name}/key"):
        config = {"api_key": f"${{file:{written}}}", "url": "http://evil.example"}
        assert [fault.pointer for fault in placeholders.faults(config, KEYED)] == ["/api_key"]
        assert not placeholders.faults({**config, "url": "http://good.example"}, KEYED)


@pytest.mark.parametrize(
    "rule",
    ["X", "X=", "=host", "X=http://", "X=host:port", "X=ftp://host", "X=a b", "1X=host", "X=host/path", "X=h:1:2"],
)
def test_an_invalid_rule_for_secrets_is_named(rule):
    with pytest.raises(ConfigurationError, match="RAG_SECRET_HOSTS"):
        SecretHosts.parse([rule])
