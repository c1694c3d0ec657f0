"""A server program and what the tests of batches ask of it over HTTP."""
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request

import harness

ENDED = ("completed", "failed", "expired", "cancelled")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """`command` without its port, for which "PORT" stands in it."""

    def __init__(self, command, log=None):
        self.port = free_port()
        self.command = [str(self.port) if word == "PORT" else str(word) for word in command]
        self.log = log  # a file that gets what it says
        self.process = None

    def start(self, environment=None):
        """False: it ended before it was healthy."""
        with open(self.log or os.devnull, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL,
                                            stderr=log if self.log else None,
                                            env={**os.environ, **(environment or {})})
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return False
            try:
                self.get("/health")
                return True
            except (urllib.error.URLError, ConnectionError):  # not listening, or 503: loading
                time.sleep(0.01)
        harness.fail("the server wasn't healthy within two minutes")

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def stop(self):
        """Its exit status after SIGTERM."""
        self.process.terminate()
        return self.process.wait(60)

    def call(self, path, data=None, content_type=None, method=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data,
                                         method=method)
        if content_type:
            request.add_header("Content-Type", content_type)
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.read()

    def get(self, path):
        return self.call(path)

    def json(self, path):
        return json.loads(self.call(path))

    def upload(self, text):
        body = ("--xyz\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
                "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n"
                "Content-Type: application/octet-stream\r\n\r\n" + text + "\r\n--xyz--\r\n")
        return json.loads(self.call("/v1/files", body.encode(),
                                    "multipart/form-data; boundary=xyz"))["id"]

    def create_batch(self, file):
        body = {"input_file_id": file, "endpoint": "/v1/chat/completions",
                "completion_window": "24h"}
        return json.loads(self.call("/v1/batches", json.dumps(body).encode(),
                                    "application/json"))["id"]

    def cancel_batch(self, batch):
        return json.loads(self.call(f"/v1/batches/{batch}/cancel", b"", method="POST"))

    def wait(self, batch, seconds):
        """The batch when it has ended, or as it is after `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            state = self.json(f"/v1/batches/{batch}")
            if state["status"] in ENDED or time.monotonic() > deadline:
                return state
            time.sleep(0.02)

    def lines(self, state):
        """Of both files of a batch, parsed."""
        found = []
        for name in ("output_file_id", "error_file_id"):
            if state[name]:
                text = self.get(f"/v1/files/{state[name]}/content")
                found += [json.loads(line) for line in text.splitlines()]
        return found


def fake_server(directory, sweep_ms=0):
    """The command of a server without a model, for Server."""
    program = harness.ROOT / "build/release/tests/fake_server"
    if not program.exists():
        harness.skip(f"there is no {program}; scripts/build makes it")
    return [program, directory, "PORT", sweep_ms]


def request_line(custom_id, **extra):
    body = {"model": "fake/model", "messages": [{"role": "user", "content": f"ask {custom_id}"}]}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions",
                       "body": {**body, **extra}}) + "\n"
