"""`keras.distillation`'s default loss beside `kd.losses.ForwardKL`.

The same fixed logits, then the same students trained on the soft loss alone
(scikit-learn's digits, three seeds).

    python tests/benchmarks/keras_distillation.py
"""

import statistics

import keras
import numpy as np
from keras.distillation import LogitsDistillation
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import keras_distill as kd

SEEDS = (0, 1, 2)


def network(units):
    return keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(units, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def trained_teacher(x, y):
    keras.utils.set_random_seed(0)
    teacher = network(256)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    teacher.compile("adam", loss)
    teacher.fit(x, y, epochs=40, verbose=0)
    return teacher


def accuracy(model, x, y):
    return float(np.mean(model.predict(x, verbose=0).argmax(-1) == y))


def student_accuracy(soft_loss, teacher, rows, seed):
    x, x_test, y, y_test = rows
    keras.utils.set_random_seed(seed)
    student = network(32)
    distiller = kd.Distiller(teacher, student)
    distiller.compile("adam", soft_loss=soft_loss, soft_weight=1.0)
    distiller.fit(x, y, epochs=40, verbose=0)
    return accuracy(student, x_test, y_test)


def main():
    teacher_logits = np.log([[0.7, 0.2, 0.1]]).astype("float32")
    student_logits = np.log([[0.4, 0.4, 0.2]]).astype("float32")
    expected = 0.7 * np.log(0.7 / 0.4) + 0.2 * np.log(0.5) + 0.1 * np.log(0.5)
    theirs = LogitsDistillation().compute_loss(teacher_logits, student_logits)
    same = LogitsDistillation().compute_loss(teacher_logits, teacher_logits)
    ours = kd.losses.ForwardKL(1.0)(teacher_logits, student_logits)
    print(f"KL(teacher || student) by hand:            {expected:.6f}")
    print(f"kd.losses.ForwardKL(1.0):                  {float(ours):.6f}")
    print(f"keras.distillation.LogitsDistillation():   {float(theirs):.6f}")
    print(f"the same for a student equal to teacher:   {float(same):.6f}")
    x, y = load_digits(return_X_y=True)
    rows = train_test_split(
        (x / 16).astype("float32"), y, test_size=0.3, random_state=0
    )
    teacher = trained_teacher(rows[0], rows[2])
    print(f"teacher: {accuracy(teacher, rows[1], rows[3]):.3f}")
    soft_losses = {
        "LogitsDistillation()": LogitsDistillation(),
        "ForwardKL(3.0)": kd.losses.ForwardKL(3.0),
    }
    for name, soft_loss in soft_losses.items():
        scores = [
            student_accuracy(soft_loss, teacher, rows, seed) for seed in SEEDS
        ]
        print(
            f"student on the soft loss alone, {name}: "
            f"{statistics.mean(scores):.3f} ± {statistics.stdev(scores):.3f}"
        )


if __name__ == "__main__":
    main()
