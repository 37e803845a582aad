"""What `vectors.py` runs elsewhere: Model2Vec, SetFit, on one thread each."""

import json
import pathlib
import sys
import time

import numpy as np
import torch
from datasets import Dataset
from model2vec.distill import distill
from sentence_transformers import SentenceTransformer
from setfit import SetFitModel
from setfit import Trainer
from setfit import TrainingArguments

FEW = 100
# Pairs for each text: fewer where there are many texts.
ITERATIONS = {"few": 20, "many": 2}


def per_second(encode, texts):
    """Texts a second, the best of three rounds."""
    best = 0.0
    for _ in range(3):
        begin = time.perf_counter()
        encode(texts)
        best = max(best, len(texts) / (time.perf_counter() - begin))
    return best


def static(teacher, texts, folder):
    """Model2Vec's own distillation of the teacher, and its vectors."""
    model = distill(model_name=teacher, pca_dims=256)
    model.save_pretrained(folder / "model2vec")
    sizes = [p.stat().st_size for p in (folder / "model2vec").rglob("*")]

    def encode(held):
        return model.encode(held, use_multiprocessing=False)

    np.savez(
        folder / "model2vec.npz",
        **{part: encode(held) for part, held in texts.items()},
    )
    return {
        "texts_per_second": per_second(encode, texts["test"]),
        "size_bytes": sum(sizes),
    }


def set_fit(teacher, data, labels, seed, drawn):
    """Accuracy of SetFit, contrast and head, on so many labels."""
    texts, classes = data["texts"], data["labels"]
    rows = drawn[f"{labels}.{seed}"]
    train = Dataset.from_dict(
        {
            "text": [texts["train"][row] for row in rows],
            "label": [classes["train"][row] for row in rows],
        }
    )
    torch.manual_seed(seed)
    model = SetFitModel.from_pretrained(teacher)
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            batch_size=16,
            num_epochs=1,
            num_iterations=ITERATIONS["few" if labels <= FEW else "many"],
            seed=seed,
            report_to="none",
            save_strategy="no",
            output_dir="/tmp/setfit",
        ),
        train_dataset=train,
    )
    begin = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    found = np.asarray(model.predict(texts["test"]))
    return {
        "accuracy": float(np.mean(found == np.array(classes["test"]))),
        "seconds": seconds,
        "texts_per_second": len(found) / (time.perf_counter() - begin),
    }


def run(teacher, folder, seeds):
    folder = pathlib.Path(folder)
    data = json.loads((folder / "data.json").read_text())
    path = folder / "torch.json"
    found = json.loads(path.read_text()) if path.exists() else {}

    def kept(name, make):
        if name not in found:
            found[name] = make()
            path.write_text(json.dumps(found, indent=1))
            print(name, found[name], flush=True)

    torch.set_num_threads(1)
    kept("model2vec", lambda: static(teacher, data["texts"], folder))
    encoder = SentenceTransformer(teacher, device="cpu")
    kept(
        "MiniLM",
        lambda: {
            "texts_per_second": per_second(
                encoder.encode, data["texts"]["test"]
            )
        },
    )
    torch.set_num_threads(2)
    for name in data["drawn"]:
        labels, seed = map(int, name.split("."))
        if seed < seeds:
            kept(
                f"setfit.{name}",
                lambda labels=labels, seed=seed: set_fit(
                    teacher, data, labels, seed, data["drawn"]
                ),
            )


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]))
