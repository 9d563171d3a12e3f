"""Listings that come in pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rag_wrapper_client.exchanges import Exchange, Request, ask

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page. `cursor` stands for the next one, None on the last; `answer` is all that the service said."""

    items: list[T]
    cursor: str | None
    answer: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """How to get the page at a cursor; None stands for the first."""

    page_at: Callable[[str | None], Exchange[Page[T]]]


def paged(request_at: Callable[[str | None], Request], items: str, cursor: str = "next_cursor") -> Listing[Any]:
    """Return a listing. `items` and `cursor` are the fields of the answer that hold them."""

    def page_at(place: str | None) -> Exchange[Page[Any]]:
        answer = yield from ask(request_at(place))
        return Page(answer[items], answer.get(cursor), answer)

    return Listing(page_at)
