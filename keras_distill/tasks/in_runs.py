"""What a command asks of a kind of task: to read, to keep, to tell."""

PARTS = ("train", "dev", "test")


class InRuns:
    """How a task comes about in a run, and what is told of it."""

    # The kind of `data.Splits`; the options of `experiments.Preparation` that
    # are for it; the files that a run keeps of it; and its usual student.
    splits_kind, options, files, student = None, (), (), None
    # What a student learns by that gains by a teacher's states.
    method = "kd"
    # What is learnt of a row, in reports.
    label_noun = "label"
    cut_learning_rate = None  # Of a cut model; None: the teacher's own.
    # Those of the options that say how a file is read.
    reading = ()
    # Those of the options that the data decide where they are `"auto"`.
    decides = ()
    # Whether a teacher brings what makes its inputs of the data.
    preprocesses = False
    # Whether a teacher learns from the labels first, and students may see some
    # of them.
    fine_tunes_teacher = True
    # Whether that may begin with a classifier of vectors.
    contrasts = False
    # Whether further rows without labels can be made, or read from a file.
    makes_transfer = False
    # Whether they are made where nobody asks for them.
    wants_transfer = True

    @classmethod
    def check_chosen(cls, chosen):
        """Raises `UsageError` for a choice that such a task has no use for.

        Args:
            chosen: `experiments.Preparation`.
        """

    @classmethod
    def read_for(cls, chosen):
        """The data of a run as they are.

        Args:
            chosen: `experiments.Preparation`.

        Returns:
            `data.Splits`.
        """
        raise NotImplementedError

    @classmethod
    def made_for(cls, splits, chosen, folder):
        """The task of a run, which is then kept in the run's folder.

        Args:
            splits: What `read_for` gave.
            chosen: `experiments.Preparation`.
            folder: Path.

        Returns:
            `Task`.
        """
        raise NotImplementedError

    @classmethod
    def restored_for(cls, chosen, folder, facts):
        """What `made_for` has kept.

        Args:
            chosen: `experiments.Preparation`.
            folder: Path.
            facts: Dict, its `facts`.

        Returns:
            `Task`.
        """
        raise NotImplementedError

    @classmethod
    def files_for(cls, chosen):
        """Tuple of the files that `made_for` leaves, below the folder.

        Args:
            chosen: `experiments.Preparation`.
        """
        del chosen
        return cls.files

    @classmethod
    def decided(cls, facts):
        """Dict from `decides` to what the data have decided.

        Args:
            facts: Dict, from `facts`.
        """
        del facts
        return {}

    def facts(self):
        """Dict that JSON can hold: rows, classes, notes."""
        splits = self.splits
        return {
            "noun": self.noun,
            "rows": {part: len(getattr(splits, part)) for part in PARTS},
            "labelled_train_rows": self.labelled_train_rows,
            "label_names": list(splits.label_names),
            "notes": list(splits.notes),
        }

    @staticmethod
    def outputs_in_words(label_names):
        """What is predicted, in a few words."""
        return f"{len(label_names)} classes"

    @classmethod
    def summary(cls, facts):
        """One line on `facts`."""
        rows = facts["rows"]
        return (
            f"{rows['train']:,} train, {rows['dev']:,} dev and "
            f"{rows['test']:,} test {facts['noun']}s, "
            f"{cls.outputs_in_words(facts['label_names'])}"
        )
