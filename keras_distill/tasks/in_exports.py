"""What an export, and its card, ask of a task."""


class InExports:
    """What a model takes in and gives, beyond its training."""

    # What `export` compares: predictions, or outputs within a tolerance.
    export_as, tolerance = "classification", None
    # What hubs of models list its students under.
    pipeline_tag = "text-classification"

    @property
    def output_names(self):
        """List of strings, what each logit is called; or None."""
        return self.splits.label_names

    def raw_examples(self, count):
        """The first inputs of dev as they were before the preprocessor."""
        raise NotImplementedError

    def examples(self, count):
        """The first inputs of dev as the model takes them, a dict."""
        return self.encoded["dev"].take(slice(count)).inputs

    def reads(self):
        """A sentence on how much of a row a model takes in."""
        raise NotImplementedError

    def one_row(self):
        """What one row is, for latencies: `"one text of 64 tokens"`."""
        return f"one {self.noun}"
