"""Who is asked is decided by what was given, and by no variable of the client's own."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from notarius.contracts import ProviderError, Reply
from notarius.llmruntime import HOSTED_URL

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])
Server: TypeAlias = Any  # the fixture's class can't be imported
Ask = Callable[..., Reply]
Fail = Callable[..., ProviderError]
Run = Callable[..., SimpleNamespace]


@pytest.fixture
def diverted(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which the client would ask our server, and a proxy that tells who is."""
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.origin}/v1")
    monkeypatch.setenv("HTTPS_PROXY", server.origin)


@pytest.mark.usefixtures("diverted")
def test_the_hosted_service_is_meant_where_no_address_is_given(
    fail: Fail, server: Server, say: SimpleNamespace
) -> None:
    """A variable that names another address does not get the prompts."""
    fail(say.http(502, b""), base_url=None)
    (asked,) = server.requests
    assert (asked.method, asked.path) == ("CONNECT", "api.openai.com:443")
    assert HOSTED_URL == "https://api.openai.com/v1"


@pytest.mark.usefixtures("diverted")
def test_the_command_asks_the_hosted_service_too(
    notarius: Run, server: Server, say: SimpleNamespace
) -> None:
    """Without `--base-url` it is the address that the documentation names."""
    server.plays(say.http(502, b""))
    got = notarius("--transport-retries", "0", url=False)
    assert got.status == 4
    assert [asked.path for asked in server.requests] == ["api.openai.com:443"]


def test_no_organization_or_project_is_told(
    ask: Ask, server: Server, say: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that was named does not learn what the environment says for another."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-kanari")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-kanari")
    ask(say.chat())
    assert "kanari" not in str(server.requests[0].headers)


HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-length", "content-type", "host"),
        "user-agent",
    }
)
"""What every request has; beside these there may be the key, and what the client says of itself."""


@pytest.mark.parametrize("key", [None, "kanari-chosen"])
def test_no_header_comes_from_the_environment(
    ask: Ask,
    server: Server,
    say: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    key: str | None,
) -> None:
    """Headers meant for another server don't go to this one, and don't replace the chosen key."""
    for name in ("ORG_ID", "PROJECT_ID", "ADMIN_KEY", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", "kanari-other")
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS",
        "X-Api-Key: kanari-gateway\nAuthorization: Bearer kanari-gateway\nHost: kanari.example\n"
        "Cookie: c=kanari\nOpenAI-Organization: kanari",
    )
    ask(say.chat(), api_key=key)
    headers = {name.lower(): value for name, value in server.requests[0].headers.items()}
    assert headers.pop("authorization", None) == (key and f"Bearer {key}")
    assert "kanari" not in str(headers)
    assert {name for name in headers if not name.startswith("x-stainless-")} == HEADERS
