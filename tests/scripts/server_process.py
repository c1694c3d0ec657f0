"""`barge serve` as a process, for tests of the whole program."""
import http.client
import json
import socket
import subprocess
import time

import harness


class ServerProcess:
    """Use as a context. What it logs goes to the file `log`."""

    def __init__(self, directory, model, *flags, env=None, key=None):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.key = key
        self.log = directory / "server.log"
        self.command = [harness.program(), "serve", str(model), "--port", str(self.port),
                        "--data-dir", str(directory / "data"), "--cache-dir",
                        str(directory / "cache"), *map(str, flags)]
        self.env = env
        self.process = None

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=self.env)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                harness.fail(f"the server ended with status {self.process.returncode}:\n"
                             + self.logged()[-2000:])
            try:
                if self.request("GET", "/health")[0] == 200:
                    return self
            except OSError:  # not listening yet
                pass
            time.sleep(0.05)
        harness.fail("the server wasn't healthy within two minutes")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            harness.fail("the server didn't end within a minute of SIGTERM")

    def logged(self):
        return self.log.read_text(errors="replace")

    def request(self, method, path, body=None, headers=None):
        """(status, headers, body)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = dict(headers or {})
        if self.key and "Authorization" not in sent:
            sent["Authorization"] = f"Bearer {self.key}"
        if isinstance(body, dict):
            body = json.dumps(body)
        connection.request(method, path, body=body, headers=sent)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, response.headers, text

    def call(self, method, path, body=None, headers=None):
        """The answer's JSON; any status but 200 fails the test."""
        status, _, text = self.request(method, path, body, headers)
        if status != 200:
            harness.fail(f"{method} {path}: status {status}: {text[:500]}")
        return json.loads(text)

    def upload(self, text):
        body = ("--xyz\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
                "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n"
                "\r\n" + text + "\r\n--xyz--\r\n")
        return self.call("POST", "/v1/files", body.encode(),
                         {"Content-Type": "multipart/form-data; boundary=xyz"})["id"]

    def create_batch(self, file, endpoint="/v1/completions"):
        return self.call("POST", "/v1/batches", {"input_file_id": file, "endpoint": endpoint,
                                                 "completion_window": "24h"})["id"]

    def wait(self, batch, seconds=300):
        """The batch when it has ended."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            state = self.call("GET", f"/v1/batches/{batch}")
            if state["status"] in ("completed", "failed", "expired", "cancelled"):
                return state
            time.sleep(0.05)
        harness.fail(f"the batch wasn't done within {seconds} s: {state}")
