"""Sends requests with `requests`, and says what became of them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import requests
from requests.auth import AuthBase

from rag_wrapper_client.connections import GivingUp, arriving, new_session
from rag_wrapper_client.errors import ConnectionFailedError, TimedOutError
from rag_wrapper_client.exchanges import Reply, Request

ApiKey = str | Callable[[], str] | None


class KeyHeader(AuthBase):
    """Puts the key into each request, and shows it to nobody. Without one it keeps the HTTP library from looking for
    a password in `.netrc`."""

    def __init__(self, api_key: ApiKey) -> None:
        self._api_key = api_key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        key = self._api_key() if callable(self._api_key) else self._api_key
        if key:
            request.headers["Authorization"] = f"Bearer {key}"
        return request

    def __repr__(self) -> str:
        return "KeyHeader(…)" if self._api_key else "KeyHeader(None)"


class OpenAnswer:
    """An answer whose body is still arriving."""

    def __init__(self, response: requests.Response, giving_up: GivingUp) -> None:
        self._response = response
        self._pieces = arriving(response)
        self._giving_up = giving_up

    def read(self) -> bytes:
        try:
            piece = next(self._pieces, b"")
        except requests.RequestException as error:
            raise _lost(error) from error
        if not piece:
            self._giving_up.forget()
        return piece

    def give_up(self) -> None:
        self._giving_up.ask()

    def close(self) -> None:
        self._giving_up.forget()
        self._response.close()


class Transport:
    """Sends requests to one service; usable by several threads."""

    def __init__(
        self,
        url: str,
        api_key: ApiKey,
        *,
        database: str | None,
        timeout_seconds: float,
        connect_seconds: float,
        connections: int,
        verify: bool | str | None,
        session: requests.Session | None,
    ) -> None:
        self.url = url.rstrip("/")
        self._auth = KeyHeader(api_key)
        self._params = {} if database is None else {"database": database}
        self._timeouts = (connect_seconds, timeout_seconds)
        self._verify = verify
        self._is_own = session is None
        self._session = session or new_session(connections)

    def send(self, request: Request, giving_up: GivingUp | None = None) -> Reply | ConnectionFailedError:
        """Return the answer, whatever its status, or the error when none arrived."""
        giving_up = giving_up or GivingUp()
        try:
            with giving_up.of_this_thread():
                response = self._sent(request)
        except requests.RequestException as error:
            if request.body is not None and request.body.fault is not None:
                raise request.body.fault from None
            return _chained(error)
        if request.is_streamed and response.status_code < 300:
            return Reply(response.status_code, response.headers, pieces=OpenAnswer(response, giving_up))
        try:
            content = b"".join(arriving(response))
        except requests.RequestException as error:
            return _chained(error)
        finally:
            giving_up.forget()
            response.close()
        return Reply(response.status_code, response.headers, content)

    def close(self) -> None:
        if self._is_own:
            self._session.close()

    def _sent(self, request: Request) -> requests.Response:
        connect_seconds, read_seconds = self._timeouts
        headers = {"Accept": "application/json, */*;q=0.5", "User-Agent": USER_AGENT, **request.headers}
        body = request.body
        if body is not None:
            headers.setdefault("Content-Type", body.content_type)
        return self._session.request(
            request.method,
            self.url + request.path,
            params={**self._params, **dict(request.params)},
            data=None if body is None else body.content if body.content is not None else body.pieces(),
            headers=headers,
            auth=self._auth,
            timeout=(connect_seconds, request.timeout_seconds or read_seconds),
            allow_redirects=False,  # the key is for this service alone
            verify=self._verify,
            stream=True,
        )


def _chained(error: requests.RequestException) -> ConnectionFailedError:
    lost = _lost(error)
    lost.__cause__ = error
    return lost


def _lost(error: requests.RequestException) -> ConnectionFailedError:
    if isinstance(error, requests.Timeout):
        return TimedOutError("The service did not answer in time", code="timed_out")
    return ConnectionFailedError(f"No whole answer arrived ({type(error).__name__})", code="connection_failed")


def _version() -> str:
    try:
        return version("rag-wrapper-client")
    except PackageNotFoundError:  # used from a checkout
        return "0"


USER_AGENT = f"rag-wrapper-client/{_version()}"
