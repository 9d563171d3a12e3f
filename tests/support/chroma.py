"""Run a stock Chroma server for the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import requests

from tests.support.live import eventually, free_port


class ChromaServer:
    """A stock `chroma run` on a directory and a port of its own, which may be stopped and started again.

    One that `may_reset` lets its clients delete everything, which Chroma's own tests do.
    """

    def __init__(self, directory, *, may_reset=False):
        self.port = free_port()
        self._process = None
        self._how = ["--path", str(directory), "--port", str(self.port)]
        if may_reset:
            told = {"port": self.port, "persist_path": str(directory), "allow_reset": True}
            directory.mkdir(parents=True, exist_ok=True)
            file = directory / "config.yaml"
            file.write_text("".join(f"{name}: {json.dumps(value)}\n" for name, value in told.items()))
            self._how = [str(file)]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        # Do what the command `chroma` does, wherever this installation has put it.
        program = "import sys, chromadb_rust_bindings as bindings; bindings.cli(['chroma', *sys.argv[1:]])"
        environ = {**os.environ, "ANONYMIZED_TELEMETRY": "False"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, "run", *self._how],
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(self._answers)

    def stop(self, number):
        self._process.send_signal(number)
        self._process.wait(30)

    def _answers(self):
        try:
            return requests.get(f"{self.url}/api/v2/heartbeat", timeout=1).status_code == 200
        except requests.RequestException:
            return False
