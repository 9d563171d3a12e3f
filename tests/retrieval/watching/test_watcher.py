"""A watcher brings in reported changes, waits for services that are away, and is the only one of its name."""

import os
import threading

import pytest

from retrieval.watching.events import LONGEST_BURST, settled
from retrieval.watching.pauses import Pauses
from retrieval.watching.reporting import Reporter
from retrieval.watching.watcher import RESCAN_SECONDS, Watcher
from schemas.contracts.watchers import RETRYING, SCANNING, STOPPED, WATCHING
from schemas.errors import ConfigurationError, ConflictError, UnavailableError
from tests.retrieval.watching.conftest import Embedding
from tests.support.live import PATIENCE_SECONDS


class TestWatching:
    def test_changes_are_brought_in_as_they_are_reported(self, root, watching, stored):
        (root / "a.md").write_text("one")

        def write():
            assert stored()["docs/a.md"].text == "one"
            (root / "a.md").write_text("two")
            (root / "b.md").write_text("new")
            return {"a.md", "b.md"}

        def delete():
            assert stored()["docs/a.md"].text == "two"
            (root / "a.md").unlink()
            return {"a.md"}

        told = watching(write, delete)
        assert list(stored()) == ["docs/b.md"]
        assert (told[0].state, told[-1].state) == (SCANNING, STOPPED)
        assert (told[-1].indexed, told[-1].deleted, told[-1].files, told[-1].pending) == (3, 1, 1, 0)
        assert told[-1].last_change == told[-1].started_at == "2026-11-22T08:30:00.000Z"

    def test_a_reported_change_is_read_even_when_the_signature_is_the_same(self, root, watching, stored):
        (root / "a.md").write_text("one")

        def write():
            before = (root / "a.md").stat()
            with (root / "a.md").open("r+") as file:
                file.write("two")
            os.utime(root / "a.md", ns=(before.st_atime_ns, before.st_mtime_ns))
            return {"a.md"}

        watching(write)
        assert stored()["docs/a.md"].text == "two"

    def test_a_folder_created_later_is_watched(self, root, open_sync, watching, stored):
        heard = []

        def listen(stop):
            def changes(folders):
                heard.append(folders)
                yield set()
                if len(heard) == 1:
                    (root / "below").mkdir()
                    (root / "below" / "a.md").write_text("one")
                    yield {"below"}
                stop.set()

            return changes

        watching(listen=listen)
        assert heard == [{""}, {"", "below/"}]
        assert list(stored()) == ["docs/below/a.md"]

    def test_everything_is_compared_again_after_a_while_whatever_is_reported(self, root, watching, stored):
        (root / "a.md").write_text("one")

        def wait():
            (root / "b.md").write_text("nobody told")
            watching.clock["seconds"] += RESCAN_SECONDS

        watching(wait, lambda: None)
        assert sorted(stored()) == ["docs/a.md", "docs/b.md"]

    @pytest.mark.parametrize("part", ["store", "embedding"])
    def test_a_service_that_is_away_is_waited_for(self, root, request, watching, stored, part):
        away = request.getfixturevalue(part)
        (root / "a.md").write_text("one")
        attempts = []

        def send(report):
            if report.state == RETRYING:
                attempts.append(report)
                away.is_away = len(attempts) < 2

        def leave():
            away.is_away = True
            (root / "a.md").write_text("two")
            return {"a.md"}

        told = watching(leave, send=send)
        assert stored()["docs/a.md"].text == "two"
        assert attempts[0].reason == f"The {'service is' if part == 'store' else 'embeddings are'} away"
        assert attempts[0].failing_since == "2026-11-22T08:30:00.000Z"
        last = next(report for report in reversed(told) if report.state == WATCHING)
        assert (last.reason, last.failing_since, last.pending) == (None, None, 0)

    def test_an_empty_folder_is_waited_for(self, root, watching, stored):
        (root / "a.md").write_text("one")

        mounted = root.parent / "b.md"
        mounted.write_text("mounted again")

        def send(report):
            # Whole at once: the next attempt may be under way.
            if report.state == RETRYING and mounted.exists():
                mounted.rename(root / "b.md")

        def unmount():
            (root / "a.md").unlink()
            return {"a.md"}

        told = watching(unmount, send=send)
        assert list(stored()) == ["docs/b.md"]
        assert any("has no files to index" in (report.reason or "") for report in told)

    def test_a_watcher_that_cannot_listen_still_syncs_now_and_then(self, root, watching, stored):
        (root / "a.md").write_text("one")

        def listen(stop):
            def changes(folders):
                if stored():
                    stop.set()
                raise UnavailableError("No more watches")
                yield set()

            return changes

        told = watching(listen=listen)
        assert list(stored()) == ["docs/a.md"]
        assert told[-1].reason == "No more watches"

    def test_the_work_can_stop_between_two_files(self, root, open_sync, stored):
        for name in ("a.md", "b.md"):
            (root / name).write_text(name)
        sync = open_sync()
        sync.look()
        sync.work(lambda: sync.indexed == 1)
        assert (len(stored()), sync.pending) == (1, 1)

    def test_another_model_is_an_error_and_not_waited_for(self, root, open_sync, in_step, watching):
        (root / "a.md").write_text("one")
        in_step()
        (root / "a.md").write_text("two")
        with pytest.raises(ConflictError, match="embedded with 'letters-1', not with 'letters-2'"):
            watching(sync=open_sync(embedding=Embedding("letters-2")))

    @pytest.mark.parametrize("error_type", ["authentication", "authorization"])
    def test_who_is_refused_at_first_does_not_wait(self, watching, error_type):
        refusals = iter([ConfigurationError("This needs an API key", error_type=error_type)])

        def send(report):
            raise next(refusals)

        with pytest.raises(ConfigurationError, match="This needs an API key"):
            watching(send=send)


class TestOneOfAName:
    """Here `send` answers as the service does: with 409 while another instance reports."""

    def busy(self, reported_at):
        return ConflictError("Watcher 'docs' is running", code="watcher_is_running", reported_at=reported_at)

    def test_another_instance_that_reports_again_is_alive(self, root, watching, stored):
        (root / "a.md").write_text("one")
        times = iter(range(10))

        def send(report):
            raise self.busy(f"2026-11-22T08:30:0{next(times)}.000Z")

        with pytest.raises(ConflictError, match="is running"):
            watching(send=send)
        assert next(times) == 2
        assert stored() == {}

    def test_another_instance_that_was_killed_is_waited_for(self, root, watching, stored):
        (root / "a.md").write_text("one")
        left = [self.busy("2026-11-22T08:30:00.000Z")] * 3

        def send(report):
            if left:
                raise left.pop()

        watching(send=send)
        assert list(stored()) == ["docs/a.md"]

    def test_a_watcher_that_lost_its_name_stops(self, root, open_sync):
        is_taken, refused = threading.Event(), threading.Event()

        def send(report):
            if is_taken.is_set():
                raise self.busy("2026-11-22T08:30:00.000Z")

        def changes(folders):
            yield set()
            is_taken.set()
            assert refused.wait(PATIENCE_SECONDS)

        reporter = Reporter(send, on_refused=refused.set, heartbeat_seconds=0.01, spacing_seconds=0.0)
        watcher = Watcher(open_sync(), reporter, instance="here", collection="context", stop=refused)
        with pytest.raises(ConflictError, match="is running"):
            watcher.run(changes)


class TestBursts:
    def settle(self, *ticks, quiet_seconds=1.0):
        """Return what is reported at each (second, paths)."""
        now = {}

        def changes():
            for second, paths in ticks:
                now["seconds"] = second
                yield set(paths)

        return list(settled(changes(), quiet_seconds=quiet_seconds, seconds=lambda: now["seconds"]))

    def test_a_burst_is_reported_once_when_it_is_over_and_an_endless_one_now_and_then(self):
        told = self.settle((0.0, "a"), (0.5, "a"), (1.0, "b"), (1.5, ""), (2.0, ""), (2.5, ""))
        assert told == [set(), set(), set(), set(), {"a", "b"}, set()]
        ticks = [(second / 2, "a") for second in range(4 * LONGEST_BURST + 2)]
        assert [paths for paths in self.settle(*ticks) if paths] == [{"a"}] * 2
        pauses = Pauses()
        assert [pauses.next_seconds() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
        pauses.reset()
        assert pauses.next_seconds() == 1
