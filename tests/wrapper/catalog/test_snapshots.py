"""The age of the oldest running read, since which old versions pile up."""

from tests.support.live import eventually
from wrapper.catalog.catalog import Catalog
from wrapper.observing import metrics


def test_the_age_of_the_oldest_read_under_way_is_known(open_database):
    now = [100.0]
    catalog = Catalog(open_database(), lambda: now[0])
    catalog.open()
    assert catalog.oldest_snapshot_seconds() == 0.0
    with catalog.read():
        now[0] += 5
        second = catalog.read()
        second.__enter__()
        now[0] += 2
        assert catalog.oldest_snapshot_seconds() == 7.0
    assert catalog.oldest_snapshot_seconds() == 2.0
    second.__exit__(None, None, None)
    assert catalog.oldest_snapshot_seconds() == 0.0


def test_a_read_that_fails_is_not_under_way_any_more(open_database):
    catalog = Catalog(open_database(), iter(range(100)).__next__)
    catalog.open()
    try:
        with catalog.read():
            raise ValueError
    except ValueError:
        pass
    assert catalog.oldest_snapshot_seconds() == 0.0


def test_metrics_tell_of_an_export_under_way(client, app, filled, monkeypatch):
    name, gauge = filled(), metrics.OLDEST_SNAPSHOT_SECONDS
    tell = gauge.set

    def age():
        (line,) = (
            line
            for line in client.get("/metrics").get_data(as_text=True).splitlines()
            if line.startswith("rag_oldest_snapshot_seconds ")
        )
        return float(line.split()[1])

    with monkeypatch.context() as patched, app.extensions["rag.service"].store.export(name):
        # Other applications of this process set the same gauge, to 0, as nobody reads there.
        patched.setattr(gauge, "set", lambda seconds: tell(seconds) if seconds > 1 else None)
        eventually(lambda: age() > 1)
    eventually(lambda: age() < 1)
