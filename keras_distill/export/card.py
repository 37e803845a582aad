"""The `README.md` that goes with exported files: a model card."""

import json
import os
import pathlib

import keras_hub

from keras_distill import _files
from keras_distill.export._saved_model import METADATA
from keras_distill.export.markdown import escape
from keras_distill.export.options import WITH_TOLERANCE

FRONT = """---
library_name: keras
pipeline_tag: {pipeline_tag}
tags:
- knowledge-distillation
---
"""
# How KerasHub's tokenizers name the files that they save and read.
TOKENIZER_FILES = {
    "vocabulary.txt": "vocabulary",
    "vocabulary.json": "vocabulary",
    "merges.txt": "merges",
    "vocabulary.spm": "proto",
}
SPELLING = ("lowercase", "strip_accents", "split_on_cjk", "add_prefix_space")


def model_card(
    folder,
    title,
    sections,
    files,
    preprocessor=None,
    sides=1,
    pipeline_tag="text-classification",
):
    """Writes `README.md` beside exports: what they are, how to load them.

    The code under "How to load" runs in `folder` as it stands.

    Args:
        folder: Path of a folder with exports of `litert` and `saved_model`;
            or of a SavedModel itself.
        title: String, shown as it stands.
        sections: Dict from headings to Markdown.
        files: Names in `folder` of the exports to load: `.tflite` files and
            SavedModel folders, `"."` for `folder` itself. Empty where the
            sections say how to load.
        preprocessor: The KerasHub preprocessor of the student, which a
            `.tflite` file needs before it, or None for token ids.
        sides: Integer, 2 where it takes pairs of texts.
        pipeline_tag: String, what hubs of models list it under.

    Returns:
        The path of the card.

    Raises:
        FileNotFoundError: An export or its metadata is not in `folder`.

    Example:

    >>> import keras, numpy as np, tempfile
    >>> from keras_distill import export
    >>> x = keras.Input((3,), name="x")
    >>> student = keras.Model(x, keras.layers.Dense(2)(x))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "student.tflite"
    ...     report = export.litert(student, path, examples={"x": np.eye(3)})
    ...     card = model_card(folder, "Example", {"Data": "None."}, [path.name])
    ...     text = card.read_text()
    >>> "## Data" in text and "student.tflite" in text
    True
    """
    folder = pathlib.Path(os.fspath(folder))
    parts = [FRONT.format(pipeline_tag=pipeline_tag), f"# {escape(title)}", ""]
    for heading, text in sections.items():
        parts += [f"## {heading}", "", text.strip(), ""]
    if files:
        parts += ["## How to load", ""]
    for name in files:
        snippet = _snippet(folder, name, preprocessor, sides)
        parts += ["```python", snippet, "```", ""]
    path = folder / "README.md"
    _files.write_text(path, "\n".join(parts))
    return path


def _snippet(folder, name, preprocessor, sides):
    path = folder / name
    if path.suffix == ".tflite":
        metadata = _metadata(path.with_suffix(".metadata.json"))
        return _litert(name, metadata, preprocessor, sides)
    if path.suffix == ".npz":
        metadata = _metadata(path.with_suffix(".metadata.json"))
        return _arrays(name, metadata, preprocessor, sides)
    return _saved_model(name, _metadata(path / METADATA))


def _metadata(path):
    if not path.is_file():
        raise FileNotFoundError(
            "`files` must be exports in `folder`, with the metadata written "
            f"with them. Received: no {str(path)!r}"
        )
    return json.loads(path.read_text(encoding="utf-8"))


def _litert(name, metadata, preprocessor, sides):
    tokenise = _tokenise(metadata, preprocessor, sides)
    imports = ["import numpy as np"]
    if tokenise is not None:
        imports.insert(0, "import keras_hub")
        arrange = [
            "inputs = {",
            '    name: np.asarray(inputs[name], "int32")',
            "    for name in run.get_input_details()",
            "}",
        ]
    else:
        tokenise, arrange = [], _zeros(metadata, "np")
    return "\n".join(
        [
            *imports,
            "from ai_edge_litert.interpreter import Interpreter",
            "",
            *tokenise,
            f"run = Interpreter({json.dumps(name)}).get_signature_runner()",
            *arrange,
            *_answer(metadata, "run(**inputs)"),
        ]
    )


def _arrays(name, metadata, preprocessor, sides):
    tokenise = _tokenise(metadata, preprocessor, sides)
    imports = ["import numpy as np"]
    if tokenise is not None:
        imports.insert(0, "import keras_hub")
    return "\n".join(
        [
            *imports,
            "",
            *(tokenise or _zeros(metadata, "np")),
            f"held = np.load({json.dumps(name)})",
            'mask = np.asarray(inputs["padding_mask"], "float32")[..., None]',
            'vectors = held["table"][np.asarray(inputs["token_ids"])] * mask',
            "mean = vectors.sum(axis=1) / np.maximum(mask.sum(axis=1), 1)",
            'vectors = mean @ held["projection"] + held["bias"]',
            "print(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))",
        ]
    )


def _saved_model(name, metadata):
    specs = metadata["inputs"]
    if specs[0]["dtype"] == "string":
        imports = ["import tensorflow as tf", "import tensorflow_text"]
        texts = [
            f'    "{spec["name"]}": tf.constant(["A text to classify."]),'
            for spec in specs
        ]
        inputs = ["inputs = {", *texts, "}"]
    else:
        imports = ["import tensorflow as tf"]
        inputs = _zeros(metadata, "tf")
    return "\n".join(
        [
            *imports,
            "",
            f"model = tf.saved_model.load({json.dumps(name)})",
            'serve = model.signatures["serving_default"]',
            *inputs,
            *_answer(metadata, "serve(**inputs)"),
        ]
    )


def _zeros(metadata, library):
    """Lines that make inputs of zeros, of 8 tokens where any length will do."""
    lines = ["inputs = {"]
    if any(spec["dtype"] == "uint8" for spec in metadata["inputs"]):
        lines.insert(
            0, "# Instead of zeros an image, its colours from 0 to 255."
        )
    for spec in metadata["inputs"]:
        shape = [1, *(size or 8 for size in spec["shape"][1:])]
        name = json.dumps(spec["name"])
        lines.append(
            f'    {name}: {library}.zeros({shape}, "{spec["dtype"]}"),'
        )
    return [*lines, "}"]


def _answer(metadata, call):
    output = metadata["outputs"][0]
    lines = [f"logits = {call}[{json.dumps(output['name'])}]"]
    if metadata["labels"] is None or metadata["task"] in WITH_TOLERANCE:
        return [*lines, "print(logits)"]
    labels = json.dumps(metadata["labels"], ensure_ascii=False)
    lines.append(f"labels = {labels}")
    row = "logits[0]" if call.startswith("run(") else "logits[0].numpy()"
    if metadata["task"] == "multi_label":
        return [
            *lines,
            "# Above 0, one half; this card has a threshold for each label.",
            f"print([name for name, z in zip(labels, {row}) if z > 0])",
        ]
    if len(output["shape"]) > 2:
        return [
            *lines,
            "# Of each token; the first one of a word tells the word's.",
            f"print([labels[i] for i in {row}.argmax(axis=-1)])",
        ]
    return [*lines, f"print(labels[int({row}.argmax())])"]


def _tokenise(metadata, preprocessor, sides):
    """Lines that make the inputs from a text, None where nothing can."""
    names = metadata["vocabulary_files"]
    if preprocessor is None or not names:
        return None
    kinds = [type(preprocessor).__name__, type(preprocessor.tokenizer).__name__]
    arguments = _tokenizer_arguments(names, preprocessor.tokenizer)
    known = all(hasattr(keras_hub.models, kind) for kind in kinds)
    if arguments is None or not known:
        return None
    length = metadata["sequence_length"] or preprocessor.sequence_length
    texts = '["A text to classify."]'
    pair = f"x=({texts}, {texts})"
    return [
        f"tokenizer = keras_hub.models.{kinds[1]}(",
        *(f"    {key}={value}," for key, value in arguments.items()),
        ")",
        f"preprocessor = keras_hub.models.{kinds[0]}(",
        f"    tokenizer, sequence_length={length}",
        ")",
        f"inputs = preprocessor({texts if sides == 1 else pair})",
    ]


def _tokenizer_arguments(names, tokenizer):
    found = {}
    for name in names:
        ending = ".".join(name.rsplit(".", 2)[-2:])
        if ending not in TOKENIZER_FILES:
            return None
        found[TOKENIZER_FILES[ending]] = json.dumps(name)
    config = tokenizer.get_config()
    for key in SPELLING:
        if config.get(key) is not None:
            found[key] = repr(config[key])
    return found
