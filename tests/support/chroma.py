"""Run a stock Chroma server for the tests."""

from __future__ import annotations

import os
import subprocess
import sys

import requests

from tests.support.live import eventually, free_port


class ChromaServer:
    """A stock `chroma run` on a directory and a port of its own, which may be stopped and started again."""

    def __init__(self, directory):
        self._directory, self._port = directory, free_port()
        self._process = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self._port}"

    def start(self):
        # Do what the command `chroma` does, wherever this installation has put it.
        program = "import sys, chromadb_rust_bindings as bindings; bindings.cli(['chroma', *sys.argv[1:]])"
        environ = {**os.environ, "ANONYMIZED_TELEMETRY": "False"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, "run", "--path", str(self._directory), "--port", str(self._port)],
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(self._answers, seconds=60)

    def stop(self, number):
        self._process.send_signal(number)
        self._process.wait(30)

    def _answers(self):
        try:
            return requests.get(f"{self.url}/api/v2/heartbeat", timeout=1).status_code == 200
        except requests.RequestException:
            return False
