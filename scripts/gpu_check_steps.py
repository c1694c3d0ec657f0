"""What gpu_check does, in order; part of it. Seconds are what a step may take on a GPU: together
less than the 8 minutes, and what one leaves the later ones have."""
import re
import shutil
import threading

from gpu_check_runner import Cut, Failed, Skipped
from gpu_check_throughput import CONFIGURATIONS, Throughput, models_to_pack

SANITIZED = "*Norm*:*Dequant*:*Quantis*:*Append*:*Decode*:*Activat*:*Rope*:*Gather*:*Draw*"


def run_all(runner):
    runner.step("machine", machine, runner)
    profile = runner.step("probe", probe, runner)
    packer = Packer(runner)
    if not runner.emulation:
        packer.start()
    runner.step("kernels' tests", kernels_tests, runner)
    runner.step("goldens", engine_tests, runner, "goldens", "*TinyGoldens*")
    runner.step("same bytes, any policy", engine_tests, runner, "policies",
                "Quick/PolicyInvariance*")
    if not runner.emulation:
        for tool in ("memcheck", "racecheck"):
            runner.step(f"compute-sanitizer {tool}", sanitizer, runner, tool)
    benches(runner)
    packer.finish()
    Throughput(runner, profile).run_all()


def machine(runner):
    """nvidia-smi, the toolkit, glibc, processor: what the figures hold for."""
    facts = runner.facts
    facts["processor"] = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo")
                               if line.startswith("model name")), "unknown")
    facts["threads"] = sum(1 for line in open("/proc/cpuinfo") if line.startswith("processor"))
    facts["glibc"] = runner.run("glibc", ["getconf", "GNU_LIBC_VERSION"], 5, may_fail=True).strip()
    facts["barge"] = runner.run("version", [runner.bundle / "bin/barge", "--version"], 10).strip()
    if runner.emulation:
        facts["gpu"] = "none: emulated"
        return facts["gpu"]
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if shutil.which(nvcc):
        facts["toolkit"] = runner.run("nvcc", [nvcc, "--version"], 10).strip().split("\n")[-1]
    query = "name,driver_version,memory.total,pcie.link.gen.current,pcie.link.width.current"
    facts["gpu"] = runner.run("nvidia-smi", [
        "nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], 20).strip()
    return facts["gpu"]


def probe(runner):
    profile = runner.barge("probe", ["probe", "--device", "cuda", "--quick", "--log-level",
                                     "warning", *memory(runner)], 40)
    runner.facts["profile"] = profile
    return profile


def memory(runner):
    return ["--gpu-memory", "256MiB" if runner.emulation else "16GiB"]


def gtest(runner, name, program, pattern, seconds, **environment):
    """How many tests of a program passed. Failed if one didn't, or none ran."""
    text = runner.run(name, [runner.program(program), f"--gtest_filter={pattern}"], seconds,
                      may_fail=True, **environment)
    passed = re.search(r"^\[  PASSED  \] (\d+) test", text, re.M)
    failed = re.findall(r"^\[  FAILED  \] (\S+\.\S+?),? ", text, re.M)
    if failed or not passed:
        raise Failed(f"failed: {', '.join(sorted(set(failed)))[:200] or 'ended before its results'}")
    skipped = len(set(re.findall(r"^\[  SKIPPED \] (\S+) \(", text, re.M)))
    if int(passed[1]) == 0:
        raise Failed(f"no test ran, {skipped} were skipped")
    return f"{passed[1]} passed" + (f", {skipped} skipped" if skipped else "")


def kernels_tests(runner):
    pattern = "*Norm*:*Rope*:*Draw*-*Slow*" if runner.emulation else "*"
    return gtest(runner, "cuda_test", "cuda_test", pattern, 90)


def engine_tests(runner, name, pattern):
    if runner.emulation and name == "policies":
        raise Skipped("the emulation's tests run it")
    return gtest(runner, name, "engine_test", pattern, 60)


def sanitizer(runner, tool):
    program = shutil.which("compute-sanitizer") or shutil.which(
        "/usr/local/cuda/bin/compute-sanitizer")
    if program is None:
        raise Skipped("compute-sanitizer isn't there")
    text = runner.run(f"compute-sanitizer {tool}", [
        program, "--tool", tool, "--error-exitcode", "9", runner.program("cuda_test"),
        f"--gtest_filter={SANITIZED}"], 45, may_fail=True)
    summary = re.findall(r"^========= ((?:ERROR|RACECHECK) SUMMARY.*)$", text, re.M)
    if not summary:
        raise Failed("no summary: " + " | ".join(text.strip().split("\n")[-2:]))
    if not re.search(r"SUMMARY: 0 ", summary[-1]):
        raise Failed(summary[-1])
    if re.search(r"^\[  PASSED  \] 0 tests", text, re.M) or "[  PASSED  ]" not in text:
        raise Failed(f"{summary[-1]}, but the tests didn't pass")
    return summary[-1]


def benches(runner):
    """Those of single kernels: their tables are kept with their logs."""
    for path in sorted((runner.bundle / "libexec/barge").glob("cuda_*bench")):
        if path.name == "cuda_flexgen_order_bench":
            continue  # beside each model's throughput
        runner.step(path.name, lambda program=path: bench(runner, program))


def bench(runner, program):
    text = runner.run(program.name, [program], 40)
    return f"{len(text.strip().splitlines())} lines"


class Packer:
    """Makes packs on the processors while tests use the GPU, as far as disk and time go."""

    def __init__(self, runner):
        self.runner, self.stopped = runner, threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def start(self):
        self.thread.start()

    def finish(self):
        """Begins no further pack, and waits for the one that is being made."""
        self.stopped.set()
        if self.thread.is_alive():
            self.thread.join(max(self.runner.left(), 0))

    def work(self):
        for model, bits in models_to_pack(CONFIGURATIONS):
            if self.stopped.is_set():
                return
            try:
                Throughput.make_pack(self.runner, model, bits)
            except (Cut, Failed):
                pass  # tried again, and told, when it is wanted
