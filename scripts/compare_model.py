#!/usr/bin/env python3
"""Writes a random Llama in the two formats that barge and its peers read; part of compare.

  compare_model.py TOKENIZER_GGUF DIRECTORY [--quick]
    DIRECTORY/rand1b/         config.json, tokenizer.json, bf16 safetensors (2.2 GiB)
    DIRECTORY/rand1b-q4_0.gguf  the same weights in Q4_0 (0.6 GiB), the same tokenizer

The shape is TinyLlama-1.1B's, but for the vocabulary: the tokenizer is that of TOKENIZER_GGUF, so
that texts can be run too. --quick: two small layers, as `quick`. Needs numpy, ml_dtypes, gguf,
safetensors and tokenizers. A model is whole or absent: each file gets its name when it is complete.
"""
import argparse
import json
import pathlib
import shutil

import gguf
import ml_dtypes
import numpy as np
import safetensors.numpy
import tokenizers

CONTEXT, EPSILON, THETA = 4096, 1e-5, 10000.0
BOS, EOS = 1, 2
SEED, STANDARD_DEVIATION = 0, 0.02  # the latter is what Llama is initialised with
FULL = {"layers": 22, "hidden": 2048, "ffn": 5632, "heads": 32, "kv_heads": 4}
QUICK = {"layers": 2, "hidden": 256, "ffn": 768, "heads": 8, "kv_heads": 2}
NORMS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}


def matrices(shape):
    """{name in a layer: (name in GGUF, rows, columns)}"""
    hidden, ffn = shape["hidden"], shape["ffn"]
    kv = hidden // shape["heads"] * shape["kv_heads"]
    return {"self_attn.q_proj": ("attn_q", hidden, hidden),
            "self_attn.k_proj": ("attn_k", kv, hidden),
            "self_attn.v_proj": ("attn_v", kv, hidden),
            "self_attn.o_proj": ("attn_output", hidden, hidden),
            "mlp.gate_proj": ("ffn_gate", ffn, hidden),
            "mlp.up_proj": ("ffn_up", ffn, hidden),
            "mlp.down_proj": ("ffn_down", hidden, ffn)}


def random_bf16(rng, rows, columns):
    values = rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(STANDARD_DEVIATION)
    return values.astype(ml_dtypes.bfloat16)


def interleaved(matrix, heads):
    """GGUF keeps the two halves that the rotary embedding turns interleaved within each head."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(
        rows, columns)


class HuggingFace:
    """A directory as `transformers` saves it, with one shard a layer, which bounds our memory."""

    def __init__(self, directory, shape, vocabulary, shard_count):
        self.directory, self.shard_count, self.shard, self.map = directory, shard_count, 0, {}
        directory.mkdir(parents=True)
        self.total_bytes = 0
        (directory / "config.json").write_text(json.dumps({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
            "hidden_size": shape["hidden"], "intermediate_size": shape["ffn"],
            "num_hidden_layers": shape["layers"], "num_attention_heads": shape["heads"],
            "num_key_value_heads": shape["kv_heads"], "vocab_size": vocabulary,
            "max_position_embeddings": CONTEXT, "rms_norm_eps": EPSILON, "rope_theta": THETA,
            "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
            "bos_token_id": BOS, "eos_token_id": EOS, "torch_dtype": "bfloat16"}, indent=2))

    def add(self, tensors):
        """{name: bf16}, into a shard of their own."""
        self.shard += 1
        name = f"model-{self.shard:05}-of-{self.shard_count:05}.safetensors"
        safetensors.numpy.save_file(tensors, self.directory / name, {"format": "pt"})
        self.map |= {key: name for key in tensors}
        self.total_bytes += sum(value.nbytes for value in tensors.values())

    def finish(self, source):
        (self.directory / "model.safetensors.index.json").write_text(json.dumps(
            {"metadata": {"total_size": self.total_bytes}, "weight_map": self.map}))
        write_tokenizer(self.directory, source)


def field(source, key):
    return source.fields["tokenizer.ggml." + key].contents()


def write_tokenizer(directory, source):
    """SmolLM2's: byte-level BPE that sees each digit by itself."""
    tokens, types = field(source, "tokens"), field(source, "token_type")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(
        vocab={token: index for index, token in enumerate(tokens)},
        merges=[tuple(merge.split(" ")) for merge in field(source, "merges")]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Digits(individual_digits=True),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens([token for token, kind in zip(tokens, types)
                                  if kind == gguf.TokenType.CONTROL])
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": tokens[BOS],
        "eos_token": tokens[EOS], "model_max_length": CONTEXT}))


def gguf_writer(path, shape, source):
    writer = gguf.GGUFWriter(path, "llama", use_temp_file=False)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape["hidden"])
    writer.add_block_count(shape["layers"])
    writer.add_feed_forward_length(shape["ffn"])
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["kv_heads"])
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_dimension_count(shape["hidden"] // shape["heads"])
    writer.add_rope_freq_base(THETA)
    writer.add_vocab_size(len(field(source, "tokens")))
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    writer.add_tokenizer_model(field(source, "model"))
    writer.add_tokenizer_pre(field(source, "pre"))
    writer.add_token_list(field(source, "tokens"))
    writer.add_token_types(field(source, "token_type"))
    writer.add_token_merges(field(source, "merges"))
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_add_bos_token(False)
    return writer


def add_q4_0(writer, name, matrix):
    kind = gguf.GGMLQuantizationType.Q4_0
    writer.add_tensor(name, gguf.quantize(matrix.astype(np.float32), kind), raw_dtype=kind)


def write(tokenizer_gguf, directory, shape, name):
    source = gguf.GGUFReader(tokenizer_gguf)
    vocabulary, hidden = len(field(source, "tokens")), shape["hidden"]
    work = directory / f".{name}.part"
    shutil.rmtree(work, ignore_errors=True)
    checkpoint = HuggingFace(work / name, shape, vocabulary, shape["layers"] + 1)
    writer = gguf_writer(work / "q4_0.gguf", shape, source)
    rng = np.random.default_rng(SEED)
    ones = np.ones(hidden, dtype=np.float32)

    ends = {"model.embed_tokens.weight": random_bf16(rng, vocabulary, hidden),
            "lm_head.weight": random_bf16(rng, vocabulary, hidden),
            "model.norm.weight": ones.astype(ml_dtypes.bfloat16)}
    checkpoint.add(ends)
    add_q4_0(writer, "token_embd.weight", ends["model.embed_tokens.weight"])
    add_q4_0(writer, "output.weight", ends["lm_head.weight"])
    writer.add_tensor("output_norm.weight", ones)
    for layer in range(shape["layers"]):
        tensors = {f"model.layers.{layer}.{norm}.weight": ones.astype(ml_dtypes.bfloat16)
                   for norm in NORMS}
        for norm in NORMS.values():
            writer.add_tensor(f"blk.{layer}.{norm}.weight", ones)
        for theirs, (ours, rows, columns) in matrices(shape).items():
            matrix = random_bf16(rng, rows, columns)
            tensors[f"model.layers.{layer}.{theirs}.weight"] = matrix
            heads = {"attn_q": shape["heads"], "attn_k": shape["kv_heads"]}.get(ours)
            add_q4_0(writer, f"blk.{layer}.{ours}.weight",
                     interleaved(matrix, heads) if heads else matrix)
        checkpoint.add(tensors)
        print(f"layer {layer + 1} of {shape['layers']}", flush=True)
    checkpoint.finish(source)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (work / "q4_0.gguf").rename(directory / f"{name}-q4_0.gguf")
    (work / name).rename(directory / name)
    work.rmdir()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer_gguf")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    name = "quick" if arguments.quick else "rand1b"
    write(arguments.tokenizer_gguf, arguments.directory, QUICK if arguments.quick else FULL, name)


if __name__ == "__main__":
    main()
