"""How one definition of a method serves the sync and the async client.

A method of the mixins in `methods/` returns what is to be asked: an `Exchange`, a `Listing` or an `Opening`. The
decorators here are descriptors: reached through a client, the method carries that out in the client's own way, and
type checkers see it so, as `(…) -> Collection` or `(…) -> Coroutine[…, Collection]`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from rag_wrapper_client.exchanges import Answer, Exchange
from rag_wrapper_client.iterators import AsyncItems, AsyncPages, Items, Pages
from rag_wrapper_client.pages import Listing
from rag_wrapper_client.streams import Opening

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Face(ABC):
    """Whatever carries out what methods ask."""

    @abstractmethod
    def _carry_out(self, exchange: Exchange[Any]) -> Any:
        """Return the result of an exchange, or what is awaited for it."""

    def _list(self, listing: Listing[Any]) -> Any:
        raise TypeError("pages have no single answer: ask the client itself")

    def _open(self, opening: Opening[Any]) -> Any:
        raise TypeError("a stream has no single answer: ask the client itself")


class SyncFace(Face):
    """Carries methods out before they return."""


class AsyncFace(Face):
    """Carries methods out when they are awaited."""


class SyncAnswers(Face):
    """As `SyncFace`, with the status and headers of each answer."""


class AsyncAnswers(Face):
    """As `AsyncFace`, with the status and headers of each answer."""


class _Method(Generic[P, R]):
    """A method that is carried out through whatever has it."""

    def __init__(self, described: Callable[Concatenate[Any, P], R]) -> None:
        self.described = described
        self.__doc__ = described.__doc__

    def _bound(self, carried_out: Callable[[R], Any], face: Face) -> Callable[P, Any]:
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return carried_out(self.described(face, *args, **kwargs))

        update_wrapper(method, self.described)
        signature = inspect.signature(self.described)
        own = list(signature.parameters.values())[1:]
        method.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return method


class operation(_Method[P, Exchange[R]]):
    """Makes a method of an exchange."""

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...
    @overload
    def __get__(self, face: SyncFace, owner: type) -> Callable[P, R]: ...
    @overload
    def __get__(self, face: AsyncFace, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __get__(self, face: SyncAnswers, owner: type) -> Callable[P, Answer[R]]: ...
    @overload
    def __get__(self, face: AsyncAnswers, owner: type) -> Callable[P, Coroutine[Any, Any, Answer[R]]]: ...
    def __get__(self, face: Face | None, owner: type) -> Any:
        return self if face is None else self._bound(face._carry_out, face)


class listing(_Method[P, Listing[T]]):
    """Makes a method of pages, which gives an iterator."""

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...
    @overload
    def __get__(self, face: SyncFace, owner: type) -> Callable[P, Pages[T]]: ...
    @overload
    def __get__(self, face: AsyncFace, owner: type) -> Callable[P, AsyncPages[T]]: ...
    def __get__(self, face: Face | None, owner: type) -> Any:
        return self if face is None else self._bound(face._list, face)


class streamed(_Method[P, Opening[T]]):
    """Makes a method of an answer that is read while it arrives, which gives an iterator."""

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...
    @overload
    def __get__(self, face: SyncFace, owner: type) -> Callable[P, Items[T]]: ...
    @overload
    def __get__(self, face: AsyncFace, owner: type) -> Callable[P, AsyncItems[T]]: ...
    def __get__(self, face: Face | None, owner: type) -> Any:
        return self if face is None else self._bound(face._open, face)
