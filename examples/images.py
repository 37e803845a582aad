"""Distil a residual network of images, and match its feature maps.

    python examples/images.py --smoke
    python examples/images.py
    python examples/images.py --data photos/

What it learns from is scikit-learn's handwritten digits, or a folder with a
folder of images for each class. The teacher is trained here on the labels; the
students are a hundredth of its size: one learns from the labels, one from the
teacher's probabilities, too, and one from its feature maps as well. All see
images that are moved in each step, and the teacher sees the same ones.
"""

import argparse
import tempfile

import numpy as np

import keras_distill as kd

SMOKE = {"epochs": 1, "teacher_epochs": 1, "teacher_width": 4}


def main(options):
    """Data, teacher, three students, and what they are worth."""
    task = kd.tasks.ImageClassification(kd.data.load_images(options.data))
    print(f"{len(task.encoded['train']):,} images, {task.augmentation}")

    teacher = task.adapted(
        kd.students.conv_net(
            task.num_outputs, task.image_shape, options.teacher_width, depth=14
        )
    )
    kd.experiments.fine_tune(teacher, task, options.teacher_epochs, 3e-3)
    student = kd.students.ConvNet(width=4, epochs=options.epochs)
    recipes = kd.recipes
    with tempfile.TemporaryDirectory() as folder:
        found = kd.compare(
            task,
            teacher,
            {"ConvNet": student},
            folder,
            recipes=[recipes.hard(), recipes.kd(), recipes.hidden()],
            seeds=1,
            export=False,
            html=False,
        )
    print("accuracy on test")
    print(f"{'teacher':22} {found['teacher']['test_score']:.1%}")
    for row in found["rows"]:
        print(f"{row['arm']:22} {np.mean(row['test_score']['mean']):.1%}")
    print(found["verdicts"][0]["headline"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="digits", help="or a folder")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--teacher-epochs", type=int, default=20)
    parser.add_argument("--teacher-width", type=int, default=32)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    arguments = parser.parse_args()
    if arguments.smoke:
        vars(arguments).update(SMOKE)
    main(arguments)
