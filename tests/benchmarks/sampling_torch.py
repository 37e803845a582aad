"""One round of `generate` of transformers for each line of its input.

Is started by sampling.py, with a Python that has torch and transformers.
"""

import sys
import time

import torch
import transformers


def language_model(layers, width, heads, length, vocabulary):
    config = transformers.GPT2Config(
        vocab_size=vocabulary,
        n_positions=length,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        bos_token_id=0,
        eos_token_id=None,
    )
    return transformers.GPT2LMHeadModel(config).eval()


def complete(model, token_ids, completion):
    """Samples `completion` tokens behind each row."""
    rows, prompt = token_ids.shape
    with torch.inference_mode():
        found = model.generate(
            token_ids,
            attention_mask=torch.ones_like(token_ids),
            do_sample=True,
            top_k=0,
            max_new_tokens=completion,
            pad_token_id=0,
        )
    if found.shape != (rows, prompt + completion):
        raise RuntimeError(f"Received: shape={tuple(found.shape)}")


def main():
    sizes = map(int, sys.argv[1:])
    layers, width, heads, rows, prompt, completion, vocabulary = sizes
    model = language_model(
        layers, width, heads, prompt + completion, vocabulary
    )
    token_ids = torch.randint(1, vocabulary, (rows, prompt))
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        complete(model, token_ids, completion)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print("seconds", wall, cpu, flush=True)


if __name__ == "__main__":
    main()
