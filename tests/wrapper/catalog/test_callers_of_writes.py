"""Writes that share a commit run each for its own caller, and note what they do for its own request."""

from __future__ import annotations

import threading

from schemas.access.callers import ANYBODY, SERVICE, acting_as, current_or_none
from tests.support.live import eventually
from wrapper.audit import noted


def test_a_write_that_another_threads_commit_takes_along_runs_for_its_own_caller(catalog):
    seen, is_first_begun, may_end = {}, threading.Event(), threading.Event()

    def first(_):
        is_first_begun.set()
        assert may_end.wait(60)

    def write(name, caller):
        def operation(_):
            noted.note_count(1)
            seen[name] = current_or_none(), threading.current_thread().name

        def run():
            count = noted.begin()
            catalog.commit(operation)
            seen[name] += (count.count,)

        if caller is None:
            run()
        else:
            with acting_as(caller):
                run()

    callers = {"anybody": ANYBODY, "service": SERVICE, "nobody": None}
    threads = [threading.Thread(target=catalog.commit, args=(first,))]
    threads += [threading.Thread(target=write, args=each, name=each[0]) for each in callers.items()]
    threads[0].start()
    assert is_first_begun.wait(60)
    for each in threads[1:]:
        each.start()
    eventually(lambda: catalog._commits.waiting == len(callers))
    may_end.set()
    for each in threads:
        each.join(60)
    assert {name: (caller, count) for name, (caller, _, count) in seen.items()} == {
        name: (caller, 1) for name, caller in callers.items()
    }
    assert len({thread for _, thread, _ in seen.values()}) == 1, "the writes did not share a commit"
