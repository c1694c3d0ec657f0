"""Programs under a time budget, and what came of them; part of gpu_check."""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time


@dataclasses.dataclass
class Step:
    """One thing that was done. status: passed, failed, cut (no time left) or skipped."""
    name: str
    status: str
    seconds: float
    detail: str = ""


@dataclasses.dataclass
class Figure:
    """A measured value beside its limit. bar: the least (or most) ratio that is wanted, or None."""
    name: str
    value: float
    limit: float
    unit: str
    bar: float = None
    at_most: bool = False

    @property
    def ratio(self):
        return self.value / self.limit if self.limit else None

    @property
    def met(self):
        if self.bar is None or self.ratio is None:
            return None
        return self.ratio <= self.bar if self.at_most else self.ratio >= self.bar


class Cut(Exception):
    """A program, or what it was to begin with, ran out of time."""


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


class Runner:
    """Runs steps one after the other until `seconds` are over; keeps what came of them in `out`."""

    def __init__(self, directory, out, emulation, seconds, only=""):
        self.directory, self.out, self.emulation, self.only = directory, out, emulation, only
        self.bundle = directory / "barge"
        self.deadline = time.monotonic() + seconds
        self.steps, self.figures, self.facts = [], [], {}
        shutil.rmtree(out, ignore_errors=True)
        (out / "logs").mkdir(parents=True)
        self.scratch = out / "scratch"  # packs and profiles
        self.scratch.mkdir()
        self.environment = dict(os.environ)
        self.environment.update(
            BARGE_TEST_DATA=str(self.bundle / "libexec/barge/data"), BARGE_TEST_DEVICE="cuda",
            BARGE_CACHE_DIR=str(self.scratch), TMPDIR=str(self.scratch),
            BARGE_CUDA_PLUGIN=str(self.bundle / (
                "libexec/barge/libbarge_cuda_emulation.so" if emulation
                else "lib/libbarge_cuda.so")))
        libraries = [str(path) for path in cublas_directories()]
        if libraries and not emulation:
            self.environment["LD_LIBRARY_PATH"] = ":".join(
                libraries + self.environment.get("LD_LIBRARY_PATH", "").split(":")).rstrip(":")

    def left(self):
        return self.deadline - time.monotonic()

    def step(self, name, function, *arguments):
        """Calls function(...), whose result is the detail to show; its result, or None."""
        if not re.search(self.only, name):
            return None
        begin = time.monotonic()
        status, result, detail = "passed", None, ""
        try:
            result = function(*arguments)
            detail = result if isinstance(result, str) else ""
        except Cut as e:
            status, detail = "cut", str(e)
        except Skipped as e:
            status, detail = "skipped", str(e)
        except Failed as e:
            status, detail = "failed", str(e)
        except Exception as e:  # a mistake in a step must not take the others' results along
            status, detail = "failed", f"{type(e).__name__}: {e}"
        self.steps.append(Step(name, status, time.monotonic() - begin, detail))
        print(f"{status:8} {self.steps[-1].seconds:6.1f} s  {name}  {detail[:300]}", flush=True)
        self.save()
        return result if status == "passed" else None

    def run(self, name, command, seconds, may_fail=False, **environment):
        """What the program printed; Cut if it takes longer than `seconds` or all the time left,
        Failed if it ends badly. Its whole output stays in logs/NAME."""
        seconds = min(seconds, self.left())
        if seconds <= 1:
            raise Cut("no time was left for it")
        log = self.out / "logs" / f"{name.replace(' ', '_').replace('/', '_')}.log"
        out = log.with_suffix(".out")
        with open(log, "w") as err_file, open(out, "w") as out_file:
            err_file.write(f"$ {' '.join(map(str, command))}\n")
            err_file.flush()
            process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL,
                                       stdout=out_file, stderr=err_file, cwd=self.scratch,
                                       env={**self.environment, **environment},
                                       start_new_session=True)
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                raise Cut(f"ended after {seconds:.0f} s") from None
            finally:
                if process.poll() is None:  # the whole group: it is a session of its own
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        text = out.read_text(errors="replace")
        if status != 0 and not may_fail:
            last = (text + log.read_text(errors="replace")).strip().split("\n")[-3:]
            raise Failed(f"exit status {status}: " + " | ".join(last))
        return text

    def barge(self, name, arguments, seconds):
        """The JSON object that a command of barge prints."""
        text = self.run(name, [self.bundle / "bin/barge", *arguments, "--json"], seconds)
        return json.loads(text)

    def program(self, name):
        path = self.bundle / "libexec/barge" / name
        if not path.exists():
            raise Skipped(f"the bundle has no {name}")
        return path

    def save(self):
        text = json.dumps({
            "emulation": self.emulation, "facts": self.facts,
            "steps": [dataclasses.asdict(s) for s in self.steps],
            "figures": [{**dataclasses.asdict(f), "ratio": f.ratio, "met": f.met}
                        for f in self.figures]}, indent=1)
        (self.out / "results.json").write_text(text + "\n")

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)


def cublas_directories():
    """Where a toolkit, or PyTorch's own packages, keep libcublasLt; the loader's way comes last."""
    places = [os.path.join(os.environ[v], "lib64") for v in ("CUDA_HOME", "CUDA_PATH")
              if v in os.environ]
    places += ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"]
    python = shutil.which("python3")
    if python:
        library = pathlib.Path(python).parent.parent / "lib"
        places += sorted(library.glob("python3*/site-packages/nvidia/*/lib"))
    return [p for p in map(pathlib.Path, places) if list(p.glob("libcublasLt.so.*"))]
