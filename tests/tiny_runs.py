"""Runs of the commands on texts and models of seconds, and what they leave."""

import pathlib

import keras
import keras_hub
import numpy as np
import tiny_lm

from keras_distill import data
from keras_distill.experiments import distilling
from keras_distill.experiments import training

WORDS = {"good": "fine great nice lovely", "bad": "awful poor dull sad"}
SIZES = {"train": 40, "dev": 16, "test": 16}
VOCABULARY = [*data.vocabulary.SPECIAL_TOKENS, "the", "train", "dev", "test"]
VOCABULARY += " ".join(WORDS.values()).split() + list("0123456789")
VOCABULARY += [f"##{digit}" for digit in range(10)]


def write_texts(folder, sizes=SIZES, seed=0):
    """A folder with train, dev and test, two classes that words tell apart."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for part, count in sizes.items():
        lines = ["text\tlabel"]
        for row in range(count):
            label = ["good", "bad"][row % 2]
            words = rng.choice(WORDS[label].split(), 3)
            lines.append(f"{part} {row} the {' '.join(words)}\t{label}")
        (folder / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def saved_teacher(folder, classes=2, seed=0, dropout=0.0, further=()):
    """A .keras file without a tokenizer, and its vocabulary beside it."""
    folder.mkdir(exist_ok=True)
    keras.utils.set_random_seed(seed)
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("token_ids", "padding_mask", "segment_ids")
    }
    x = keras.layers.Embedding(len(VOCABULARY), 4)(inputs["token_ids"])
    x = keras.layers.GlobalAveragePooling1D()(x)
    for layer in (keras.layers.Dropout(dropout), *further):
        x = layer(x)
    keras.Model(inputs, keras.layers.Dense(classes)(x)).save(
        folder / "tiny.keras"
    )
    data.write_vocabulary(VOCABULARY, folder / "vocab.txt")
    return folder / "tiny.keras"


def _classifier(seed, dropout=0.5):
    keras.utils.set_random_seed(seed)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(VOCABULARY),
        num_layers=1,
        num_heads=1,
        hidden_dim=4,
        intermediate_dim=4,
        dropout=dropout,
        max_sequence_length=16,
    )
    preprocessor = data.bert_preprocessor(VOCABULARY, 16)
    return keras_hub.models.BertTextClassifier(backbone, 2, preprocessor)


def hub_teacher(folder, seed=0):
    """A .keras file with a KerasHub task and its preprocessor."""
    folder.mkdir(exist_ok=True)
    _classifier(seed).save(folder / "hub.keras")
    return folder / "hub.keras"


def preset_teacher(folder, seed=0):
    """A folder with a KerasHub preset."""
    _classifier(seed).save_to_preset(str(folder))
    return folder


def language_model(folder, seed=0, layers=2, broken=False):
    """A folder with the preset of a causal language model of letters."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = {"<|endoftext|>": 0, "\u0120": 27, "ab": 28}
    vocabulary |= {letter: i for i, letter in enumerate(letters, start=1)}
    tokenizer = keras_hub.models.GPT2Tokenizer(vocabulary, ["a b"])
    keras.utils.set_random_seed(seed)
    backbone = keras_hub.models.GPT2Backbone(29, layers, 2, 8, 16)
    preprocessor = keras_hub.models.GPT2CausalLMPreprocessor(tokenizer, 32)
    model = keras_hub.models.GPT2CausalLM(backbone, preprocessor)
    tiny_lm.randomized(model, seed)
    if broken:
        model.set_weights([w * np.nan for w in model.get_weights()])
    model.save_to_preset(str(folder))
    return folder


def write_letters(path, firsts="abcdefg"):
    """A .txt file with texts of letters, one a line."""
    lines = [f"{a}{b} {b}{a} {a}{a}" for a in firsts for b in "hijklmn"]
    path.write_text("\n".join(lines))
    return path


def without_tracing(monkeypatch):
    """Runs trainings step by step: tracing costs more than tiny models do."""
    compile_for = training.compile_for

    def eager(model, task, optimizer, **further):
        compile_for(model, task, optimizer, **further)
        model.run_eagerly, model.jit_compile = True, False

    monkeypatch.setattr(training, "compile_for", eager)
    monkeypatch.setattr(
        training, "predict", lambda model, rows: np.array(model(rows.inputs))
    )


def without_exports(monkeypatch):
    monkeypatch.setattr(distilling, "_export", lambda *args: {})


def arrays(folder):
    """Dict from each array in a run's models and tables to its bytes."""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*.npz")):
        with np.load(path) as held:
            for name in held.files:
                found[f"{path.relative_to(folder)} {name}"] = held[name]
    for path in sorted(pathlib.Path(folder).rglob("*.keras")):
        model = keras.models.load_model(path, compile=False)
        for number, weights in enumerate(model.get_weights()):
            found[f"{path.relative_to(folder)} {number}"] = weights
    return {name: value.tobytes() for name, value in found.items()}
