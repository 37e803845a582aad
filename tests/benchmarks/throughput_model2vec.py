"""One round of model2vec over all texts for each line of its input.

Is started by throughput.py, with a Python that has model2vec.
"""

import json
import pathlib
import sys
import time

import model2vec
import numpy as np
import tokenizers


def main():
    folder = pathlib.Path(sys.argv[1])
    width, classes, length = map(int, sys.argv[2:])
    texts = json.loads((folder / "texts.json").read_text())
    vocabulary = (folder / "vocab.txt").read_text().split("\n")[:-1]
    tokenizer = tokenizers.BertWordPieceTokenizer(
        {token: i for i, token in enumerate(vocabulary)}
    )
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(len(vocabulary), width)).astype("float32")
    head = rng.normal(size=(width, classes)).astype("float32")
    model = model2vec.StaticModel(vectors, tokenizer._tokenizer)
    for _ in sys.stdin:
        begin = time.perf_counter()
        states = model.encode(
            texts, max_length=length, use_multiprocessing=False
        )
        (states @ head).argmax(axis=-1)
        print(time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main()
