"""Runs a command in a memory cgroup of its own, page cache counted in; part of compare."""
import dataclasses
import os
import pathlib
import signal
import subprocess
import time

V1, V2 = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
MIB = 1 << 20


class CannotCap(Exception):
    """Why no memory cgroup can be made."""


@dataclasses.dataclass
class Outcome:
    status: int | None  # exit status, minus the signal's number; None: out of time
    num_oom_kills: int
    peak_bytes: int | None  # of the cgroup, page cache counted in
    stdout: str
    stderr: str

    def failure(self, cap_mib, seconds):
        """Why there is no result; None: there is one."""
        if self.num_oom_kills > 0:
            return f"killed by the cap of {cap_mib} MiB"
        if self.status is None:
            return f"not done in {seconds:g} s"
        if self.status < 0:
            return f"crashed: {signal.Signals(-self.status).name}{self.last_words()}"
        if self.status > 0:
            return f"exit status {self.status}{self.last_words()}"
        return None

    def last_words(self):
        lines = self.stderr.strip().splitlines()
        return f": {lines[-1].strip()[:200]}" if lines else ""


class MemoryCap:
    """A memory cgroup, v1 or v2, while it is entered. Throws CannotCap without the right to one."""

    def __init__(self, cap_mib):
        self.v1 = V1.is_dir()
        self.group = (V1 if self.v1 else V2) / f"barge-compare-{os.getpid()}-{time.monotonic_ns()}"
        self.cap_bytes = cap_mib * MIB

    def __enter__(self):
        try:
            if not self.v1 and "memory" not in (V2 / "cgroup.subtree_control").read_text().split():
                (V2 / "cgroup.subtree_control").write_text("+memory")
            self.group.mkdir()
        except OSError as error:
            raise CannotCap(f"no right to make a memory cgroup: {error}") from error
        try:
            limit = "memory.limit_in_bytes" if self.v1 else "memory.max"
            (self.group / limit).write_text(str(self.cap_bytes))
            self._forbid_swap()
        except OSError as error:
            self.group.rmdir()
            raise CannotCap(f"the memory controller can't be used: {error}") from error
        return self

    def __exit__(self, *_):
        self.kill_all()
        self.group.rmdir()

    def _forbid_swap(self):
        name, value = (("memory.swappiness", "0") if self.v1 else ("memory.swap.max", "0"))
        if (self.group / name).exists():
            (self.group / name).write_text(value)

    def enter_self(self):
        """For the child: before it becomes the command."""
        (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def kill_all(self):
        """What the command started and left behind, too."""
        for _ in range(100):
            pids = (self.group / "cgroup.procs").read_text().split()
            if not pids:
                return
            for pid in map(int, pids):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # it has just ended
            time.sleep(0.1)

    def num_oom_kills(self):
        text = (self.group / ("memory.oom_control" if self.v1 else "memory.events")).read_text()
        return sum(int(line.split()[1]) for line in text.splitlines()
                   if line.startswith("oom_kill "))

    def peak_bytes(self):
        path = self.group / ("memory.max_usage_in_bytes" if self.v1 else "memory.peak")
        return int(path.read_text()) if path.exists() else None  # memory.peak: since Linux 5.19


def drop_caches():
    """So that no file's pages are charged to somebody else, nor read before. False: no right to."""
    os.sync()
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def run_capped(command, cap_mib, seconds, log, environment=None):
    """Runs `command` for at most `seconds`; cap_mib None: without a cap. What it says on stderr
    goes to the file `log`. Throws CannotCap."""
    if cap_mib is None:
        return _run(command, None, seconds, log, environment)
    with MemoryCap(cap_mib) as cap:
        return _run(command, cap, seconds, log, environment)


def _run(command, cap, seconds, log, environment):
    stdout_path = log.with_suffix(".out")
    with open(stdout_path, "wb") as stdout, open(log, "wb") as stderr:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
            start_new_session=True, env=dict(os.environ, **(environment or {})),
            preexec_fn=cap.enter_self if cap else None)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return Outcome(status, cap.num_oom_kills() if cap else 0, cap.peak_bytes() if cap else None,
                   stdout_path.read_text(errors="replace"), log.read_text(errors="replace"))
