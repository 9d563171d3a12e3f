"""Who the client is: a stranger cannot make itself another, a trusted proxy is believed."""

from ipaddress import ip_address, ip_network

import pytest
from gunicorn.config import Config
from gunicorn.http.message import _ip_in_allow_list
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ConfigurationError
from wrapper.web.client_addresses import TrustedProxies, client_address

TRUSTED = TrustedProxies.parse(["10.0.0.0/8", "192.0.2.7", "fd00::/8"])
STRANGER = "203.0.113.9"


def client(peer, said=None, trusted=TRUSTED):
    environ = {"REMOTE_ADDR": peer}
    if said is not None:
        environ["HTTP_X_FORWARDED_FOR"] = said
    return client_address(environ, trusted)


@pytest.mark.parametrize(
    ("peer", "said", "address"),
    [
        ("203.0.113.9", None, "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
        ("10.1.2.3", "198.51.100.1", "198.51.100.1"),
        ("10.1.2.3", "1.1.1.1,198.51.100.1 ,10.9.9.9,  192.0.2.7", "198.51.100.1"),
        ("10.1.2.3", "10.7.7.7, 10.8.8.8", "10.7.7.7"),
        ("10.1.2.3", "198.51.100.1:4711", "198.51.100.1"),
        ("10.1.2.3", "[2001:db8::1]:4711", "2001:db8::1"),
        ("10.1.2.3", "2001:DB8:0::1", "2001:db8::1"),
        ("::ffff:10.1.2.3", "::ffff:198.51.100.1", "198.51.100.1"),
        ("fe80::1%eth0", "198.51.100.1", "fe80::1"),
        ("10.1.2.3", "1.1.1.1, unknown", "10.1.2.3"),
        ("10.1.2.3", "1.1.1.1, unknown, 10.5.5.5", "10.5.5.5"),
        ("10.1.2.3", "[198.51.100.1", "198.51.100.1"),
        ("10.1.2.3", "[2001:db8::1]x", "10.1.2.3"),
        ("10.1.2.3", "1" * 100_000, "10.1.2.3"),
        ("", "198.51.100.1", ""),
    ],
)
def test_the_last_address_that_is_no_trusted_proxys_is_the_clients(peer, said, address):
    assert client(peer, said) == address


ADDRESSES = st.ip_addresses()
ENTRIES = st.one_of(ADDRESSES.map(str), st.text(max_size=30), st.sampled_from(["unknown", "", "[::1]:80", "10.0.0.1"]))
HEADERS = st.one_of(st.none(), st.text(), st.lists(ENTRIES).map(",".join))
STRANGERS = ADDRESSES.filter(lambda each: not TRUSTED.has(getattr(each, "ipv4_mapped", None) or each))


@given(peer=STRANGERS, said=HEADERS)
def test_a_stranger_cannot_change_its_address(peer, said):
    assert client(str(peer), said) == client(str(peer))


@given(stranger=STRANGERS, said=HEADERS, proxies=st.lists(st.sampled_from(["10.0.0.1", "192.0.2.7", "fd00::2"])))
def test_a_stranger_behind_trusted_proxies_cannot_change_its_address(stranger, said, proxies):
    """Each proxy adds the address of its own peer; the last one is our peer."""
    said = ",".join([*([] if said is None else [said]), str(stranger), *proxies])
    assert client("10.0.0.9", said) == client(str(stranger))


@given(peer=ADDRESSES, said=HEADERS)
def test_the_answer_is_always_an_address(peer, said):
    ip_address(client(str(peer), said))


def test_without_trusted_proxies_the_peer_is_the_client_and_gunicorn_believes_nobody():
    assert client("127.0.0.1", "198.51.100.1", TrustedProxies()) == "127.0.0.1"
    config = Config()
    config.set("forwarded_allow_ips", ",".join(TrustedProxies().spelled()))
    assert config.forwarded_allow_ips == []


@given(peer=ADDRESSES)
def test_gunicorn_believes_the_same_peers_about_the_scheme(peer):
    config = Config()
    config.set("forwarded_allow_ips", ",".join(TRUSTED.spelled()))
    believed = _ip_in_allow_list(str(peer), config.forwarded_allow_ips, config.forwarded_allow_networks())
    assert believed == (client(str(peer), STRANGER) == STRANGER != str(peer))


@pytest.mark.parametrize("text", ["10.0.0.1/8", "proxy.example", "*", "10.0.0.0/33", "10.0.0.1-9", "0.0.0.0/0", "::/0"])
def test_what_is_no_address_or_everybody_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"^RAG_TRUSTED_PROXIES: '") as wrong:
        TrustedProxies.parse(["10.0.0.0/8", text])
    assert text in wrong.value.message


def test_networks_are_those_written():
    parsed = TrustedProxies.parse([" 10.0.0.0/8", "::1 ", "", "::ffff:192.0.2.0/120"])
    assert parsed.networks == (ip_network("10.0.0.0/8"), ip_network("::1"), ip_network("192.0.2.0/24"))
