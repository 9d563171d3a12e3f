"""A watcher waits for the end of a burst of changes, and its pauses grow."""

from __future__ import annotations

from retrieval.watching.events import LONGEST_BURST, settled
from retrieval.watching.pauses import Pauses


class TestBursts:
    def settle(self, *ticks, quiet_seconds=1.0):
        """Return what is reported at each (second, paths)."""
        now = {}

        def changes():
            for second, paths in ticks:
                now["seconds"] = second
                yield set(paths)

        return list(settled(changes(), quiet_seconds=quiet_seconds, seconds=lambda: now["seconds"]))

    def test_a_burst_is_reported_once_when_it_is_over(self):
        told = self.settle((0.0, "a"), (0.5, "a"), (1.0, "b"), (1.5, ""), (2.0, ""), (2.5, ""))
        assert told == [set(), set(), set(), set(), {"a", "b"}, set()]

    def test_an_endless_burst_is_reported_now_and_then(self):
        ticks = [(second / 2, "a") for second in range(4 * LONGEST_BURST + 2)]
        assert [paths for paths in self.settle(*ticks) if paths] == [{"a"}] * 2

    def test_pauses_grow_up_to_the_longest(self):
        pauses = Pauses()
        assert [pauses.next_seconds() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
        pauses.reset()
        assert pauses.next_seconds() == 1
