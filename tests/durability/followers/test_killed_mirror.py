"""`rag-wrapper mirror` is killed again and again while its source is written to: in the end the copy equals the source."""

import os
import subprocess
from contextlib import suppress

import numpy as np

from tests.durability.workload import running
from tests.support.commands import RUN_MAIN, run_command
from tests.support.live import PATIENCE_SECONDS, eventually

KILLS = 4
LONGEST_LIFE_SECONDS = 1.5
IDS = [f"d{number}" for number in range(600)]


class SourceWriter:
    """Does what can be done to a collection, at random."""

    def __init__(self, service, seed):
        self._service = service
        self._generator = np.random.default_rng(seed)
        self._dimension = 4
        self.done = set()
        self.session = service.session()

    def run(self, stopping):
        while not stopping.is_set():
            self.step()

    def step(self):
        choice = self._generator.random()
        kind = next(name for name, up_to in SHARES.items() if choice < up_to)
        getattr(self, kind)()
        self.done.add(kind)

    def make(self):
        self._ask("POST", "", {"name": "source"})

    def add(self):
        count = int(self._generator.integers(1, 200))
        self._ask("POST", "/source/documents", {"documents": [self._document(each) for each in self._some(count)]})

    def delete(self):
        self._ask("DELETE", "/source/documents", {"ids": self._some(int(self._generator.integers(1, 100)))})

    def delete_matching(self):
        mark = int(self._generator.integers(0, 5))
        self._ask("DELETE", "/source/documents?all=true", {"where": {"mark": mark}})

    def patch(self):
        where = {"mark": int(self._generator.integers(0, 5))}
        self._ask("PATCH", "/source/documents", {"metadata": {"seen": self._generator.random()}, "where": where})

    def empty(self):
        self._dimension = 9 - self._dimension
        self._ask("DELETE", "/source/documents/all", None)

    def make_anew(self):
        self._dimension = 9 - self._dimension
        self._ask("DELETE", "/source", None)
        self.make()

    def _some(self, count):
        return [str(each) for each in self._generator.choice(IDS, count, replace=False)]

    def _document(self, document_id):
        return {
            "id": document_id,
            "text": f"text {self._generator.random()} ä",
            "metadata": {"mark": int(self._generator.integers(0, 5))},
            "embedding": self._generator.normal(size=self._dimension).tolist(),
        }

    def _ask(self, method, path, body):
        answer = self.session.request(
            method, f"{self._service.url}/collections{path}", json=body, timeout=PATIENCE_SECONDS
        )
        assert answer.status_code < 300, answer.text


SHARES = {"add": 0.6, "delete": 0.76, "delete_matching": 0.86, "patch": 0.94, "empty": 0.98, "make_anew": 1.0}


def place_of(service, session):
    answer = session.get(f"{service.url}/collections/copy", timeout=PATIENCE_SECONDS)
    return answer.json()["metadata"].get("mirror") if answer.status_code == 200 else None


def exported(service, session, name):
    answer = session.get(f"{service.url}/collections/{name}/export", timeout=PATIENCE_SECONDS)
    return sorted(answer.content.splitlines())


def test_a_copy_equals_its_source_however_often_the_mirror_is_killed(serve, tmp_path):
    service = serve()
    writer = SourceWriter(service, seed=7)
    writer.make()
    moments = np.random.default_rng(8)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    arguments = ["mirror", service.url, "source", "--as", "copy", "--url", service.url]
    log = tmp_path / "mirror.log"
    places = []
    with running([writer.run]) as stopping, service.session() as session, log.open("wb") as output:
        for _ in range(KILLS):
            assert not stopping.is_set(), "the writer failed"
            before = place_of(service, session)
            mirror = subprocess.Popen([*RUN_MAIN, *arguments], env=environ, stdout=output, stderr=output)
            try:
                # Before that, it does nothing that a kill could disturb.
                eventually(lambda was=before: place_of(service, session) != was, complaint=log.read_text)
                with suppress(subprocess.TimeoutExpired):
                    code = mirror.wait(moments.uniform(0, LONGEST_LIFE_SECONDS))
                    raise AssertionError(f"the mirror ended with {code}: {log.read_text()}")
            finally:
                mirror.kill()
                mirror.wait()
            places.append(place_of(service, session))
    while writer.done != set(SHARES):
        writer.step()
    with service.session() as session:
        assert len({(place["id"], place["next"]) for place in places}) > KILLS // 2
        ended = run_command(*arguments, "--once")
        assert (ended.returncode, ended.stderr) == (0, ""), log.read_text()
        source = exported(service, session, "source")
        assert exported(service, session, "copy") == source
        writer.empty()
        writer.add()
        assert run_command(*arguments, "--once").returncode == 0
        assert exported(service, session, "copy") == exported(service, session, "source") != source
