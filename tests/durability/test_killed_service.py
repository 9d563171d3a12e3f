"""After `kill -9` of some or all of the service's processes, everything acknowledged is still there."""

import os
import signal
import socket

import pytest

from schemas.storage.write_waits import COMMIT, INDEX
from tests.durability.processes import alive, is_free, is_stopped, keeper, kill, workers
from tests.durability.workload import (
    Writer,
    assert_nothing_is_lost,
    create,
    documents,
    healed,
    nearest,
    running,
    written,
)
from tests.support.live import eventually
from wrapper.engine.keeper.state import read_state


class _Stranger:
    """Another program that listens where the engine of a killed service did, if that port is free."""

    def __init__(self, address):
        port = int(address.rpartition(":")[2]) if address else 0
        try:
            self._server = socket.create_server(("127.0.0.1", port))
        except OSError:
            self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.close()

    def was_asked(self):
        try:
            self._server.accept()[0].close()
        except TimeoutError:
            return False
        return True


@pytest.mark.slow
@pytest.mark.executed
@pytest.mark.parametrize(
    ("spare_the_engine", "wait"),
    [(False, INDEX), (True, INDEX), (False, COMMIT)],
    ids=["all-processes", "all-but-the-engine", "all-processes-before-the-index-has-it"],
)
def test_a_new_start_finds_everything_acknowledged(serve, tmp_path, spare_the_engine, wait):
    service = serve(write_wait=wait)
    create(service, "kept")
    writers = [Writer(service, "kept", number) for number in range(4)]
    with running(writer.run for writer in writers) as stopping:
        written(writers, 40, stopping)
        engine, keeper_pid = service.engine_pid, keeper(service)
        address = None if spare_the_engine else read_state(service.data_dir).url
        master, its_workers = service.process.pid, workers(service)
        if spare_the_engine:
            # A stopped engine does not hear that its keeper is gone, so it still exists when the next service starts. While
            # one of its threads still runs, the signal that it gets then would end all of them.
            os.kill(engine, signal.SIGSTOP)
            eventually(lambda: is_stopped(engine))
        # The keeper first: it ends its engine when it sees that the service is gone.
        killed = (keeper_pid, master, *its_workers, *(() if spare_the_engine else (engine,)))
        kill(*killed)
        eventually(lambda: not any(map(alive, killed)) and is_free(service.data_dir))
        stopping.set()
    assert alive(engine) == spare_the_engine
    with _Stranger(address) as stranger:
        again = serve()
        healed(again)
        assert not stranger.was_asked()
    assert again.engine_pid != engine
    assert not alive(engine)
    for writer in writers:
        writer.service = again
    assert_nothing_is_lost(again, "kept", writers)


def test_a_killed_keeper_is_replaced(serve):
    service = serve()
    given = documents(40, seed=7)
    create(service, "kept", given)
    engine, first = service.engine_pid, keeper(service)
    kill(first)
    eventually(lambda: not alive(engine))
    eventually(lambda: keeper(service) not in (None, first), complaint=service.tail)
    healed(service)
    assert nearest(service, "kept", given[3]["embedding"]) == ([given[3]["id"]], "index")
