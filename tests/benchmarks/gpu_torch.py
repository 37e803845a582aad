"""The parts of gpu.py that are torch's, and Hugging Face's.

Is started by gpu.py.
"""

import functools
import json
import statistics
import sys
import time

import torch
import torch.utils.checkpoint

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CHUNK = 1024


def seconds(run, rounds):
    found = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        run()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - begin)
    return statistics.median(found[1:])


def peak():
    if DEVICE == "cpu":
        return None
    return torch.cuda.max_memory_allocated() / 2**30


def sampling(sizes):
    from sampling_torch import complete
    from sampling_torch import language_model

    layers, heads, width = sizes["student"]
    prompt, completion = sizes["prompt"], sizes["completion"]
    length, vocabulary = prompt + completion, sizes["vocabulary"]
    model = language_model(layers, width, heads, length, vocabulary)
    model = model.to(DEVICE, torch.bfloat16)
    found = {}
    for rows in sizes["batches"]:
        shape = rows, prompt
        token_ids = torch.randint(1, vocabulary, shape, device=DEVICE)
        sample = functools.partial(complete, model, token_ids, completion)
        taken = seconds(sample, sizes["rounds"])
        found[f"batch {rows}"] = rows * completion / taken
    return found | {"GiB": peak()}


def jsd(teacher_logits, student_logits):
    """Sum over the tokens, in float32, beta 0.5."""
    t = torch.log_softmax(teacher_logits.float(), -1)
    s = torch.log_softmax(student_logits.float(), -1)
    m = torch.logaddexp(t, s) - torch.log(torch.tensor(2.0, device=t.device))
    return 0.5 * (t.exp() * (t - m) + s.exp() * (s - m)).sum()


def loss(sizes, chunk):
    tokens, vocabulary, width = sizes["head"]

    def drawn(*shape):
        return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16)

    heads = [drawn(vocabulary, width) / width**0.5 for _ in "ts"]
    states = [drawn(tokens, width) for _ in "ts"]
    learns = [heads[1].requires_grad_(), states[1].requires_grad_()]

    def of_rows(teacher_rows, student_rows):
        with torch.no_grad():
            teacher_logits = teacher_rows @ heads[0].T
        return jsd(teacher_logits, student_rows @ heads[1].T)

    def run():
        if chunk is None:
            total = of_rows(*states)
        else:
            parts = zip(*(side.split(chunk) for side in states))
            total = sum(
                torch.utils.checkpoint.checkpoint(
                    of_rows, *part, use_reentrant=False
                )
                for part in parts
            )
        return torch.autograd.grad(total / tokens, learns)

    return {"s": seconds(run, sizes["rounds"]), "GiB": peak()}


PARTS = {
    "sampling": sampling,
    "loss": lambda sizes: loss(sizes, None),
    "loss in chunks": lambda sizes: loss(sizes, CHUNK),
}

if __name__ == "__main__":
    print(json.dumps(PARTS[sys.argv[1]](json.loads(sys.argv[2]))))
