"""Loops over many cases that go on after a fault: one run tells them all."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager


@contextmanager
def all_faults() -> Iterator[Callable[..., AbstractContextManager[None]]]:
    """Give `case(*names)`, in whose block a check may fail; fail in the end with every case that did."""
    found: list[str] = []

    @contextmanager
    def case(*names: object) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            found.append(f"{' | '.join(map(str, names))}: {type(error).__name__}: {error}")

    yield case
    assert not found, f"{len(found)} faults:\n" + "\n".join(found)
