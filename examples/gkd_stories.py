"""Distil a language model of a preset folder, on what the student writes.

    python examples/gkd_stories.py --smoke
    python examples/gkd_stories.py --preset FOLDER --texts STORIES.txt

FOLDER is a KerasHub preset of a causal language model with its tokenizer, such
as `CausalLM.save_to_preset` writes, or a preset's name. The texts stand in one
file, separated by a line `<|endoftext|>`; the first words of each are a prompt.
The student has half of the teacher's layers, copied. Half of the completions
it learns from are its own: there the teacher corrects what it really does.
"""

import argparse
import pathlib

import keras
import keras_hub
import numpy as np

import keras_distill as kd
from keras_distill import gkd
from keras_distill.data import docstrings

SMOKE = {"steps": 4, "prompt": 4, "completion": 8, "held_out": 8}


def tiny_teacher(texts):
    """An untrained GPT-2 and a tokenizer, to see that everything runs."""
    vocabulary = kd.data.train_vocabulary(texts)
    tokenizer = kd.data.bert_preprocessor(vocabulary).tokenizer
    # Vocabulary, layers, heads, width, inner width.
    backbone = keras_hub.models.GPT2Backbone(len(vocabulary), 2, 2, 16, 32)
    return keras_hub.models.GPT2CausalLM(backbone, preprocessor=None), tokenizer


def load(options):
    """The teacher, its tokenizer and the texts."""
    if options.smoke:
        small = docstrings.build(("numpy", "keras_hub"), max_per_class=50)
        return *tiny_teacher(small.train.texts), small.train.texts
    teacher = keras_hub.models.CausalLM.from_preset(str(options.preset))
    texts = options.texts.read_text(encoding="utf-8").split("<|endoftext|>")
    return teacher, teacher.preprocessor.tokenizer, [t.strip() for t in texts]


def token_pairs(texts, tokenizer, options):
    """Token ids of prompts and of the texts that follow them."""
    ids = [np.asarray(tokenizer(text)).tolist() for text in texts]
    long = [tokens for tokens in ids if len(tokens) > options.prompt]
    prompts = [tokens[: options.prompt] for tokens in long]
    return prompts, [tokens[options.prompt :] for tokens in long]


def show(name, scores):
    """Prints how far the student is from the teacher on its own text."""
    print(
        f"{name:10} own text: KL(student || teacher) {scores.reverse_kl:.3f}, "
        f"the teacher's cross-entropy {scores.teacher_nll:.3f} nats per token"
    )


def main(options):
    """Builds the student, scores it, distils it, scores it again."""
    keras.utils.set_random_seed(0)
    teacher, tokenizer, texts = load(options)
    prompts, completions = token_pairs(texts, tokenizer, options)
    preprocessor = gkd.GKDPreprocessor(
        tokenizer,
        max_completion_length=options.completion,
        max_prompt_length=options.prompt + 1,  # One more for a start token.
    )
    held_out = preprocessor.batches(
        prompts[: options.held_out], batch_size=16, shuffle=False
    )
    train = preprocessor.batches(
        prompts[options.held_out :],
        completions[options.held_out :],
        batch_size=16,
        seed=0,
    )
    layers = max(1, teacher.backbone.num_layers // 2)
    student = kd.students.shrink_causal_lm(teacher, layers)
    limits = {
        "max_completion_length": options.completion,
        "stop_token_ids": (preprocessor.stop_token_id,),
    }
    scorer = gkd.WritingScorer(teacher, student, **limits)
    show("start", scorer(held_out))

    distiller = kd.GKDDistiller(
        teacher, student, beta=0.5, lmbda=0.5, seed=0, **limits
    )
    distiller.compile(optimizer=keras.optimizers.AdamW(5e-4))
    history = distiller.fit(
        train.repeat(), steps_per_epoch=options.steps, verbose=0
    ).history
    print(
        f"{options.steps} steps, {history['student_fraction'][0]:.0%} of the "
        f"completions the student's, divergence {history['divergence'][0]:.3f}"
    )
    show("distilled", scorer(held_out))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--preset", type=pathlib.Path, help="teacher's folder")
    parser.add_argument("--texts", type=pathlib.Path, help="file of texts")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--prompt", type=int, default=32, help="tokens")
    parser.add_argument("--completion", type=int, default=96, help="tokens")
    parser.add_argument("--held-out", type=int, default=128, help="prompts")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    arguments = parser.parse_args()
    if arguments.smoke:
        vars(arguments).update(SMOKE)
    elif not (arguments.preset and arguments.texts):
        parser.error("--preset and --texts are needed, or --smoke")
    main(arguments)
