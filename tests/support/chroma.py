"""Run a stock Chroma server for the tests."""

import json
import os
import subprocess
import sys

import requests

from tests.support.live import PATIENCE_SECONDS, PORT_ATTEMPTS, eventually, free_port


class ChromaServer:
    """A stock `chroma run` on a directory and a port of its own, which may be stopped and started again.

    One that `may_reset` lets its clients delete everything, which Chroma's own tests do.
    """

    def __init__(self, directory, *, may_reset=False):
        self.port = free_port()
        self._process = None
        self._directory = directory
        self._may_reset = may_reset

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        for attempt in range(PORT_ATTEMPTS):
            self._spawn()
            if eventually(lambda: self._answers() or self._process.poll() is not None) and self._process.poll() is None:
                return
            # Another program may have taken the port after it was found free.
            assert attempt < PORT_ATTEMPTS - 1, f"Chroma ended with {self._process.returncode}"
            self.port = free_port()

    def _how(self):
        if not self._may_reset:
            return ["--path", str(self._directory), "--port", str(self.port)]
        told = {"port": self.port, "persist_path": str(self._directory), "allow_reset": True}
        self._directory.mkdir(parents=True, exist_ok=True)
        file = self._directory / "config.yaml"
        file.write_text("".join(f"{name}: {json.dumps(value)}\n" for name, value in told.items()))
        return [str(file)]

    def _spawn(self):
        # Do what the command `chroma` does, wherever this installation has put it.
        program = "import sys, chromadb_rust_bindings as bindings; bindings.cli(['chroma', *sys.argv[1:]])"
        environ = {**os.environ, "ANONYMIZED_TELEMETRY": "False"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, "run", *self._how()],
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def stop(self, number):
        self._process.send_signal(number)
        self._process.wait(PATIENCE_SECONDS)

    def _answers(self):
        try:
            return requests.get(f"{self.url}/api/v2/heartbeat", timeout=1).status_code == 200
        except requests.RequestException:
            return False
