"""What is refused before any conversion starts."""

import keras


def check_student(student):
    """Raises `ValueError` unless `student` is a built model on TensorFlow."""
    inner = getattr(student, "student", None)
    if isinstance(inner, keras.Model):
        raise ValueError(
            "`student` must be the plain model: the teacher and the "
            "projections are not exported. Pass `distiller.student`, or what "
            "`QuantizationAware.finish` gives. "
            f"Received: student={type(student).__name__}"
        )
    if not isinstance(student, keras.Model):
        raise ValueError(
            f"`student` must be a `keras.Model`. Received: student={student!r}"
        )
    if not student.built:
        raise ValueError(
            "`student` must be built, or it has no weights to export. Call it "
            f"on a batch first. Received: student={student.name}, unbuilt"
        )
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            "Export runs on Keras' TensorFlow backend. Save the student with "
            "`student.save('student.keras')`, then load and export it under "
            "`KERAS_BACKEND=tensorflow`. "
            f"Received: backend={keras.backend.backend()!r}"
        )


def check_examples(examples):
    """Raises `ValueError` if there is nothing to compare the export on."""
    if examples is None:
        raise ValueError(
            "`examples` must hold real inputs of the student: the export is "
            "reloaded and compared with the student on them before it is "
            "accepted. Pass some hundred rows of the development set. "
            "Received: examples=None"
        )
