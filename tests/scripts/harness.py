"""What the tests of the whole program share. Each test is a program: exit status 0 passed, 77
skipped (the last line says why), anything else failed."""
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOB = ROOT / "examples" / "prompts.jsonl"
MODEL_NAME = "SmolLM2-135M-Instruct"
CPU_MEMORY_MIB, SLACK_MIB = 96, 64


def skip(why):
    print(why)
    sys.exit(77)


def fail(why):
    print(f"FAILED: {why}")
    sys.exit(1)


def program():
    path = pathlib.Path(os.environ.get("BARGE_PROGRAM", ROOT / "build/release/barge"))
    if not path.exists():
        skip(f"there is no {path}; scripts/build makes it")
    return str(path)


def model():
    path = os.environ.get("BARGE_TEST_MODEL", "")
    if not path:
        skip("BARGE_TEST_MODEL isn't set; scripts/fetch_model prints what to set it to")
    return path


def python_with(*packages):
    """A Python that has these packages of PyPI, in a virtual environment that is kept in build/.
    Skips the test where they can't be had."""
    name = re.split(r"[=\[]", packages[0])[0]
    directory = ROOT / "build" / f"venv-{name}"
    python = directory / "bin" / "python"
    if not python.exists():
        venv.create(directory, with_pip=True)
    installed = subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "install",
                                "--quiet", *packages])
    if installed.returncode != 0 and subprocess.run(
            [python, "-m", "pip", "show", "--quiet", name]).returncode != 0:
        skip(f"the Python package {name} can't be had: PyPI is out of reach")
    return python


def work_directory():
    """On a real disk: /tmp may be memory."""
    (ROOT / "build").mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="test.", dir=ROOT / "build")


def write_job(path, num_requests, max_tokens):
    """The first lines of the demo's job, cut short."""
    requests = [json.loads(line) for line in JOB.read_text().splitlines()[:num_requests]]
    for request in requests:
        request["body"]["max_tokens"] = min(max_tokens, request["body"]["max_tokens"])
    path.write_text("".join(json.dumps(r) + "\n" for r in requests))
    return [r["custom_id"] for r in requests]


def placement(directory):
    """Flags that leave most of weights and KV cache on disk."""
    return ["--cpu-memory", f"{CPU_MEMORY_MIB}MiB", "--disk-dir", str(directory),
            "--percent", "0", "30", "0", "20", "100", "0",
            "--served-model-name", MODEL_NAME]


def whole_lines(path):
    """What has surely been written: a killed writer may leave half a line."""
    if not path.exists():
        return []
    data = path.read_bytes()
    return data[:data.rfind(b"\n") + 1].splitlines()


def answers(lines):
    """{custom_id: (text, finish reason, tokens)}; each custom_id once, none failed."""
    found = {}
    for line in map(json.loads, lines):
        if line["error"] or line["response"]["status_code"] != 200:
            fail(f"an error line: {line}")
        if line["custom_id"] in found:
            fail(f"{line['custom_id']} was answered twice")
        body = line["response"]["body"]
        choice = body["choices"][0]
        found[line["custom_id"]] = (choice["message"]["content"], choice["finish_reason"],
                                    body["usage"]["completion_tokens"])
    return found


def num_kills():
    return int(os.environ.get("BARGE_TEST_KILLS", "3"))


class Moments:
    """When to kill: random, the same in each run of the test, early ones too."""

    def __init__(self, seconds):
        self.seconds = seconds  # that all the work takes, undisturbed
        self.rng = random.Random(int(os.environ.get("BARGE_TEST_SEED", "1")))

    def next(self, share_left):
        """Seconds from now, while about `share_left` of the work is left."""
        return self.rng.uniform(0.1, 0.8) * self.seconds * max(share_left, 0.1)


def run_for(command, seconds, **options):
    """Runs, killing with SIGKILL after `seconds`. The exit status; None: killed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, **options)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None
