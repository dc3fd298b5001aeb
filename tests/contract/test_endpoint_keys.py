"""Keys are sent only to servers that the operator has named."""

import json
import sys

import pytest

from contract.endpoint_keys import BadAddress, KeyRefused, address_of, check_key, key_for, permissions
from trainer.serving.client import ServerProblem, VllmServer
from workers.bridge.process import ChildProcess

ALLOWED = "VLLM_API_KEY=http://vllm:8000 OPENAI_API_KEY=https://api.example/openai VLLM_API_KEY=https://gpu.example"


@pytest.mark.parametrize(
    ("variable", "address"),
    [
        ("VLLM_API_KEY", "http://vllm:8000/v1"),
        ("VLLM_API_KEY", "HTTP://VLLM:8000"),
        ("VLLM_API_KEY", "https://gpu.example:443/v1/"),
        ("OPENAI_API_KEY", "https://api.example/openai"),
        ("OPENAI_API_KEY", "https://api.example/openai/v1"),
    ],
)
def test_a_key_goes_to_its_servers(variable: str, address: str):
    check_key(variable, address, permissions(ALLOWED))


@pytest.mark.parametrize(
    ("variable", "address"),
    [
        ("VLLM_API_KEY", "http://elsewhere:8000/v1"),
        ("VLLM_API_KEY", "http://vllm:8000.elsewhere.example/v1"),
        ("VLLM_API_KEY", "http://vllm:80001/v1"),
        ("VLLM_API_KEY", "http://vllm/v1"),
        ("VLLM_API_KEY", "https://vllm:8000/v1"),
        ("VLLM_API_KEY", "http://vllm:8000@elsewhere.example/v1"),
        ("VLLM_API_KEY", "http://vllm:8000\\@elsewhere.example/v1"),
        ("VLLM_API_KEY", "http://vllm:8000/v1\n"),
        ("OPENAI_API_KEY", "http://vllm:8000/v1"),
        ("OPENAI_API_KEY", "https://api.example/openai2/v1"),
        ("OPENAI_API_KEY", "https://api.example/openai/../other"),
        ("OPENAI_API_KEY", "https://api.example/openai/%2e%2e/other"),
        ("HF_API_KEY", "http://vllm:8000/v1"),
    ],
)
def test_no_key_goes_anywhere_else(variable: str, address: str):
    with pytest.raises((KeyRefused, BadAddress)):
        check_key(variable, address, permissions(ALLOWED))


@pytest.mark.parametrize("text", ["VLLM_API_KEY", "=http://vllm", "A_KEY=vllm:8000", "A_KEY=http://me@vllm", "A_KEY="])
def test_a_setting_that_cannot_be_read_says_so(text: str):
    with pytest.raises(ValueError, match="ENDPOINT_KEYS has"):
        permissions(text)


def test_the_servers_port_is_that_of_its_scheme_where_it_has_none():
    assert address_of("https://[::1]/v1/") == ("https", "::1", 443, "/v1")


def test_a_key_is_read_where_it_may_be_sent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    monkeypatch.delenv("ENDPOINT_KEYS", raising=False)
    assert key_for("", "http://vllm:8000/v1") == ""
    with pytest.raises(KeyRefused, match="VLLM_API_KEY=http://vllm:8000 in ENDPOINT_KEYS"):
        key_for("VLLM_API_KEY", "http://vllm:8000/v1")
    monkeypatch.setenv("ENDPOINT_KEYS", ALLOWED)
    assert key_for("VLLM_API_KEY", "http://vllm:8000/v1") == "secret"
    monkeypatch.delenv("VLLM_API_KEY")
    with pytest.raises(KeyRefused, match="VLLM_API_KEY isn't set"):
        key_for("VLLM_API_KEY", "http://vllm:8000/v1")


def test_a_publication_to_a_server_that_may_not_have_the_key_fails_in_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    monkeypatch.setenv("ENDPOINT_KEYS", ALLOWED)
    with pytest.raises(ServerProblem, match="is not sent to http://elsewhere/v1"):
        VllmServer("http://elsewhere/v1", key_variable="VLLM_API_KEY")


def test_the_trainers_processes_get_the_rules_of_their_worker_and_no_url_of_a_service(tmp_path, monkeypatch):
    """Also if the rules come from defaults, and the services from URLs that a child process may not see."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://retrace:secret@db.internal/retrace")
    program = "import json, os; from contract.outgoing.networks import OutgoingRules as R; "
    program += "print(json.dumps([R.from_environment().to_environment(), os.environ.get('DATABASE_URL')]))"
    with ChildProcess([sys.executable, "-c", program], log=tmp_path / "log") as child:
        assert child.wait(30) == 0
    rules, url = json.loads((tmp_path / "log").read_text())
    assert rules["OUTGOING_NETWORKS"] == "127.0.0.0/8,::1/128"
    assert "db.internal:5432" in rules["OUTGOING_REFUSED_SERVICES"].split(",")
    assert url is None
