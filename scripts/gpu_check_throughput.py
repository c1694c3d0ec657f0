"""Whole models under a policy, against the link, cuBLAS and FlexGen; part of gpu_check."""
import collections
import json
import shutil
import sys

from gpu_check_runner import Failed, Figure, Skipped

# In order of importance: what there is no time for is cut. Of disk homes half of the weights is
# on disk, as in FlexGen's own policy for OPT-175B.
Configuration = collections.namedtuple("Configuration", "model bits home batch batches")
HOMES = {"host": [0, 100, 100, 0, 100, 0], "disk": [0, 50, 100, 0, 100, 0]}
CONFIGURATIONS = [
    Configuration(model, bits, home, 16, 2)
    for bits, home, model in [
        (4, "host", "opt-6.7b"), (4, "host", "opt-30b@16"), (4, "disk", "opt-6.7b"),
        (4, "host", "opt-13b@20"), (4, "disk", "opt-30b@16"), (4, "disk", "opt-13b@20"),
        (16, "host", "opt-6.7b"), (16, "disk", "opt-6.7b"), (16, "host", "opt-13b@20"),
        (16, "disk", "opt-13b@20"), (16, "host", "opt-30b@16"), (16, "disk", "opt-30b@16")]]
PROMPT, ANSWER = 512, 8
FREE_BYTES = 6 << 30  # of disk, that packs leave

TINY = Configuration("tiny", 4, "host", 2, 2)
TINY_SHAPE = {"name": "tiny", "family": "opt", "hidden": 128, "layers": 2, "heads": 4,
              "kv_heads": 4, "head_dim": 32, "ffn": 256, "vocab": 320, "context": 128,
              "norm_eps": 1e-05, "tied_output": True, "qkv_bias": True, "output_bias": True,
              "activation": "relu"}


def models_to_pack(configurations):
    return list(dict.fromkeys((c.model, c.bits) for c in configurations))


class Throughput:
    def __init__(self, runner, profile):
        self.runner, self.profile = runner, profile or {}
        self.prompt, self.answer = (12, 4) if runner.emulation else (PROMPT, ANSWER)
        self.orders = {}  # FlexGen's order of a model and its bits, from host memory

    def run_all(self):
        if self.runner.emulation:
            self.measure(TINY)
            return
        flexgen_works = True
        for i, c in enumerate(CONFIGURATIONS):
            report = self.measure(c)
            flexgen = None
            if report and c.home == "host":
                self.orders[c.model, c.bits] = self.runner.step(
                    f"{name_of(c)}, FlexGen's order", self.flexgen_order, c)
                if flexgen_works:
                    flexgen = self.runner.step(f"{name_of(c)}, FlexGen 0.1.8", self.flexgen, c)
                    flexgen_works = flexgen is not None  # it doesn't start, or takes too long
            if report:
                self.judge(c, report, self.orders.get((c.model, c.bits)), flexgen)
            if not any((c.model, c.bits) == (d.model, d.bits) for d in CONFIGURATIONS[i + 1:]):
                shutil.rmtree(pack_of(self.runner, c.model, c.bits), ignore_errors=True)

    def measure(self, c):
        report = self.runner.step(name_of(c), self.bench, c)
        if report:
            report["configuration"] = c._asdict()
            self.runner.facts.setdefault("benches", {})[name_of(c)] = report
            self.add(c, "generated", report["generated_tokens_per_s"], 0, "tokens/s")
            for lane, what in (("compute", "GPU"), ("load", "link"), ("disk", "disk")):
                self.add(c, f"{what} busy", report["busy"].get(lane, 0), 1, "of time")
        return report

    @staticmethod
    def make_pack(runner, model, bits):
        """The pack's directory; made unless it is there."""
        pack = pack_of(runner, model, bits)
        if pack.exists():
            return pack
        environment = {}
        if runner.emulation:
            (runner.scratch / "tiny.json").write_text(json.dumps(TINY_SHAPE))
            environment["BARGE_MODELS_DIR"] = str(runner.scratch)
        elif shutil.disk_usage(runner.scratch).free < weights_bytes(runner, model, bits) + FREE_BYTES:
            raise Failed("the disk has no room for its pack")
        runner.run(f"pack {model} {bits}", [
            runner.bundle / "bin/barge", "pack", f"dummy:{model}", "--weight-bits", bits, "-o", pack],
            60, **environment)
        return pack

    def bench(self, c):
        pack = self.make_pack(self.runner, c.model, c.bits)
        arguments = ["bench", pack, "--device", "cuda", "--gpu-memory",
                     "256MiB" if self.runner.emulation else "16GiB", "--log-level", "warning",
                     "--prompt-len", self.prompt, "--gen-len", self.answer,
                     "--gpu-batch-size", c.batch, "--num-gpu-batches", c.batches,
                     "--num-prompts", c.batch * c.batches, "--percent", *HOMES[c.home]]
        trace = self.runner.out / f"trace-{name_of(c).replace(' ', '-').replace('@', '_')}.json"
        report = self.runner.barge(name_of(c), [*arguments, "--trace", trace], 60)
        report["busy"] = busy_shares(json.loads(trace.read_text())["traceEvents"],
                                     report["sweeps"])
        return report

    def flexgen_order(self, c):
        shape = shape_of(self.runner, c.model)
        text = self.runner.run(f"order {name_of(c)}", [
            self.runner.program("cuda_flexgen_order_bench"), shape["hidden"], shape["ffn"],
            shape["layers"], c.bits, self.prompt, self.answer, c.batch, c.batches], 30)
        return json.loads(text)

    def flexgen(self, c):
        wheels = list(self.runner.directory.glob("flexgen-*.whl"))
        if not wheels:
            raise Skipped("its wheel was not brought along")
        text = self.runner.run(f"flexgen {name_of(c)}", [
            shutil.which("python3") or sys.executable,
            self.runner.directory / "gpu_check_flexgen.py", wheels[0], c.model.split("@")[0],
            shape_of(self.runner, c.model)["layers"], c.bits, self.prompt, self.answer, c.batch,
            c.batches, *HOMES[c.home]], 60)
        return json.loads(text.strip().split("\n")[-1])

    def judge(self, c, report, order, flexgen):
        """The bars: what was reached of what FlexGen, the link and cuBLAS do."""
        speed = report["generated_tokens_per_s"]
        if flexgen:
            self.add(c, "against FlexGen 0.1.8", speed, flexgen["tokens_per_s"], "tokens/s", bar=2)
        if order and c.home == "host":
            self.add(c, "against FlexGen's order", speed, order["serial_tokens_per_s"], "tokens/s",
                     bar=None if flexgen else 2)
            self.add(c, "against its order, overlapped", speed, order["overlapped_tokens_per_s"],
                     "tokens/s")
        if order and self.profile:
            self.judge_resources(c, report, order)

    def judge_resources(self, c, report, order):
        """What each phase made of the resource that it waits for longest."""
        link = self.profile["link_down_bytes_per_s"]
        disk = self.profile["disk_read"][-1]["bytes_per_s"]
        weights, shape = report["weights"], shape_of(self.runner, c.model)
        # All weights that have no home on the device cross the link in each sweep.
        linked, read = weights["host"] + weights["disk"], weights["disk"]
        operations = 2 * shape["layers"] * c.batch * c.batches * (
            4 * shape["hidden"]**2 + 2 * shape["hidden"] * shape["ffn"])  # of one token each
        decode_sweeps = self.answer - 1
        phases = {"prefill": (max(report["sweeps"] - decode_sweeps, 1), self.prompt),
                  "decode": (decode_sweeps, decode_sweeps)}
        slowest = 0
        for phase, (sweeps, tokens) in phases.items():
            seconds, rate = report[f"{phase}_seconds"], order[f"cublas_{phase}_tflops"] * 1e12
            # (work, rate, unit, scale, bar)
            resources = {"link": (sweeps * linked, link, "GB/s", 1e9, 0.9),
                         "disk": (sweeps * read, disk, "GB/s", 1e9, None),
                         "products": (operations * tokens, rate, "Tflop/s", 1e12, 0.7)}
            binding = max(resources, key=lambda r: resources[r][0] / resources[r][1])
            work, limit, unit, scale, bar = resources[binding]
            slowest += work / limit
            if seconds:
                self.add(c, f"{phase}, {binding}", work / seconds / scale, limit / scale, unit,
                         bar=bar)
        self.add(c, "seconds against the slowest resource's", report["seconds"], slowest, "s",
                 bar=1.1, at_most=True)

    def add(self, c, what, value, limit, unit, **bar):
        self.runner.figures.append(Figure(f"{name_of(c)}: {what}", value, limit, unit, **bar))


def busy_shares(events, num_sweeps):
    """{category: share of the time of the last sweeps in which something of it was under way}."""
    spans = sorted((e["ts"], e["ts"] + e["dur"], e["cat"]) for e in events if e["ph"] == "X")
    sweeps = [span for span in spans if span[2] == "sweep"][-num_sweeps:]
    if not sweeps:
        return {}
    first, last = sweeps[0][0], sweeps[-1][1]
    busy, until = collections.Counter(), {}
    for begin, end, category in spans:  # by their begin: what overlaps counts once
        begin, end = max(begin, until.get(category, first)), min(end, last)
        if end > begin:
            busy[category] += end - begin
            until[category] = end
    return {category: time / (last - first) for category, time in busy.items()}


def name_of(c):
    return f"{c.model} {c.bits}-bit {c.home}"


def pack_of(runner, model, bits):
    return runner.scratch / f"{model}-{bits}"


def shape_of(runner, model):
    """The JSON of a model, with the layers that its name asks for."""
    name, _, layers = model.partition("@")
    shape = dict(TINY_SHAPE) if name == "tiny" else json.loads(
        (runner.bundle / f"share/barge/models/{name}.json").read_text())
    shape["layers"] = int(layers or shape["layers"])
    return shape


def weights_bytes(runner, model, bits):
    shape = shape_of(runner, model)
    numbers = shape["layers"] * (4 * shape["hidden"]**2 + 2 * shape["hidden"] * shape["ffn"])
    numbers += shape["hidden"] * (shape["vocab"] + shape["context"])
    return numbers * (4.5 if bits == 4 else bits) / 8
