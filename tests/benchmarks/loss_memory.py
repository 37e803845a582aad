"""Memory and time of the token loss: all logits at once, or in chunks.

Each variant runs in a process of its own, in turns: its peak memory is counted
from the point where both heads and the hidden states are in place. Prints the
bytes and seconds of the fastest round and their ratios to the plain path;
processor seconds, too, which say more on a machine that is busy.

    python tests/benchmarks/loss_memory.py
"""

import argparse
import json
import subprocess
import sys
import time

GIB = 2**30


def peak():
    """Highest resident memory of this process so far, in bytes."""
    import resource

    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def head(vocabulary, width, seed):
    """A language model of which only the head is used."""
    import keras
    import keras_hub

    from keras_distill.gkd.language_model import LanguageModel

    keras.utils.set_random_seed(seed)
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=vocabulary,
        num_layers=1,
        num_heads=1,
        hidden_dim=width,
        intermediate_dim=8,
        max_sequence_length=8,
    )
    return LanguageModel(
        keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    )


def step(options, chunk_tokens):
    """A function of nothing: loss, gradients of the states and of the head."""
    import numpy as np
    import tensorflow as tf

    from keras_distill.divergences import generalized_jsd
    from keras_distill.gkd.token_loss import token_divergence

    teacher = head(options.vocabulary, options.width, 0)
    student = head(options.vocabulary, options.width, 1)
    rng = np.random.default_rng(0)
    shape = (1, options.tokens, options.width)
    states = [tf.constant(rng.normal(size=shape), "float32") for _ in "ts"]
    mask = tf.ones((1, options.tokens), "int32")
    variables = [v.value for v in student.head_variables]

    def run():
        with tf.GradientTape() as tape:
            tape.watch(states[1])
            total, count = token_divergence(
                generalized_jsd,
                teacher,
                states[0],
                student,
                states[1],
                mask,
                chunk_tokens=chunk_tokens,
            )
            loss = total / count
        gradients = tape.gradient(loss, [states[1], *variables])
        return loss, [tf.reduce_sum(tf.square(g)) for g in gradients]

    return tf.function(run, jit_compile=options.jit)


def measure(options):
    """One variant: loss, norms of the gradients, seconds and bytes."""
    chunk_tokens = options.variant
    if chunk_tokens not in ("auto", "plain"):
        chunk_tokens = int(chunk_tokens)
    run = step(options, None if chunk_tokens == "plain" else chunk_tokens)
    before, rounds = peak(), []
    for _ in range(options.rounds + 1):
        start = time.perf_counter(), time.process_time()
        loss, norms = run()
        loss = float(loss)
        end = time.perf_counter(), time.process_time()
        rounds.append([b - a for a, b in zip(start, end)])
    seconds, processor = map(min, zip(*rounds[1:]))
    return {
        "loss": loss,
        "norms": [float(norm) for norm in norms],
        "seconds": seconds,
        "processor": processor,
        "bytes": peak() - before,
    }


def in_its_own_process(arguments):
    command = [sys.executable, __file__, *arguments]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(output.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--chunks", nargs="+", default=["auto"])
    parser.add_argument("--variant", help="Measure this one alone.")
    parser.add_argument("--jit", action="store_true")
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(measure(options)))
        return
    common = []
    for name in ("tokens", "vocabulary", "width", "rounds"):
        common += [f"--{name}", str(getattr(options, name))]
    variants = ("plain", *options.chunks)
    for mode in ([], ["--jit"]):
        turns = [
            {
                v: in_its_own_process([*common, *mode, "--variant", v])
                for v in variants
            }
            for _ in range(options.turns)
        ]
        best = {
            v: {
                name: min(turn[v][name] for turn in turns)
                for name in ("bytes", "seconds", "processor")
            }
            for v in variants
        }
        for variant, found in best.items():
            ratio = {n: found[n] / best["plain"][n] for n in found}
            last = turns[-1][variant]
            print(
                f"{'XLA' if mode else 'graph'}, {variant}: "
                f"{found['bytes'] / GIB:.2f} GiB "
                f"({ratio['bytes']:.2f} x plain), "
                f"{found['seconds']:.2f} s ({ratio['seconds']:.2f} x), "
                f"{found['processor']:.2f} processor s "
                f"({ratio['processor']:.2f} x), "
                f"loss {last['loss']:.6f}, norms {last['norms']}",
                flush=True,
            )


if __name__ == "__main__":
    main()
