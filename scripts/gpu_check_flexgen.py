"""FlexGen 0.1.8 from its wheel, on dummy weights and without the network; part of gpu_check:
  gpu_check_flexgen.py WHEEL MODEL LAYERS BITS PROMPT GEN GPU_BATCH NUM_GPU_BATCHES PERCENT...
Prints one JSON object last. Its device memory is held to 16 GiB, as barge's is."""
import argparse
import dataclasses
import json
import sys
import tempfile
import types

GPU_BYTES = 16 << 30


class Tokenizer:
    """Stands in for the one that FlexGen would fetch: its benchmark only wants a list of ids."""

    @staticmethod
    def from_pretrained(*_, **__):
        return Tokenizer()

    def __call__(self, prompts, padding, max_length):
        ids = [1] * (max_length - 7) + list(range(2, 9))
        return types.SimpleNamespace(input_ids=[ids for _ in prompts])


def main():
    wheel, model, layers, bits, prompt, gen, batch, batches, *percent = sys.argv[1:]
    sys.path.insert(0, wheel)
    sys.modules["transformers"] = types.SimpleNamespace(AutoTokenizer=Tokenizer)
    import torch
    torch.cuda.set_per_process_memory_fraction(
        min(1.0, GPU_BYTES / torch.cuda.get_device_properties(0).total_memory))
    from flexgen import flex_opt

    whole = flex_opt.get_opt_config
    flex_opt.get_opt_config = lambda name: dataclasses.replace(
        whole(name), num_hidden_layers=int(layers))
    measured = {}

    def keep(_, model_size, cache_size, hidden_size, gpu_peak, projected, prefill_latency,
             prefill_throughput, decode_latency, decode_throughput, total_latency, total_throughput):
        measured.update(tokens_per_s=total_throughput, prefill_seconds=prefill_latency,
                        decode_seconds=decode_latency, gpu_peak_bytes=gpu_peak)
        return ""

    flex_opt.write_benchmark_log = keep
    parser = argparse.ArgumentParser()
    flex_opt.add_parser_arguments(parser)
    with tempfile.TemporaryDirectory() as directory:
        arguments = ["--model", f"facebook/{model}", "--path", flex_opt.DUMMY_WEIGHT,
                     "--offload-dir", directory, "--prompt-len", prompt, "--gen-len", gen,
                     "--gpu-batch-size", batch, "--num-gpu-batches", batches,
                     "--percent", *percent]
        if bits == "4":
            arguments.append("--compress-weight")
        flex_opt.run_flexgen(parser.parse_args(arguments))
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
