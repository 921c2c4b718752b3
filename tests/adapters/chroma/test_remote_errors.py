"""What a Chroma server or its proxy answers with becomes an error that says what to do."""

from __future__ import annotations

import httpx
import pytest
from chromadb.api.base_http_client import BaseHTTPClient

from memoryd.adapters.chroma.remote_errors import to_open_error, to_remote_error
from memoryd.errors import StoreError, StoreOffline
from memoryd.settings import StoreSettings

SETTINGS = StoreSettings(host="chroma.example", port=8900)


def raised_for(status: int) -> Exception:
    """What Chroma's client raises for an answer of a proxy."""
    request = httpx.Request("GET", "http://chroma.example:8900/api/v2/heartbeat")
    answer = httpx.Response(status, text="<html>secret text</html>", request=request)
    with pytest.raises(Exception) as caught:  # noqa: PT011 (it is a bare Exception)
        BaseHTTPClient._raise_chroma_error(answer)
    return caught.value


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "store_unauthorized"),
        (403, "store_unauthorized"),
        (502, "store_offline"),
        (503, "store_offline"),
        (504, "store_offline"),
    ],
)
def test_what_a_proxy_answers_is_no_fault_of_the_call(status: int, code: str) -> None:
    """So the daemon serves what it has meanwhile."""
    error = to_remote_error(raised_for(status), SETTINGS)
    assert isinstance(error, StoreOffline)
    assert error.code == to_open_error(raised_for(status), SETTINGS).code == code
    assert "chroma.example:8900 " in error.message
    assert f"HTTP {status}" in error.message
    assert error.hint
    assert "secret" not in error.message


def test_what_the_server_itself_refuses_is_not_an_outage() -> None:
    error = to_remote_error(raised_for(400), SETTINGS)
    assert isinstance(error, StoreError)
    assert not isinstance(error, StoreOffline)


def test_a_server_that_cannot_be_reached_is_offline_also_when_it_is_opened() -> None:
    """Chroma's client turns the failed connection into a ValueError."""
    try:
        try:
            raise httpx.ConnectError("refused")
        except httpx.ConnectError as exc:
            raise ValueError("Could not connect to a Chroma server.") from exc
    except ValueError as exc:
        error = to_open_error(exc, SETTINGS)
    assert error.code == "store_offline"
    assert to_open_error(ValueError("?"), SETTINGS).code == "store_unavailable"
