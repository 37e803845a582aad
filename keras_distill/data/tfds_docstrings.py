"""The docstring set as a tensorflow-datasets builder.

Importing this module registers the name:

```python
import keras_distill.data.tfds_docstrings
import tensorflow_datasets as tfds

train = tfds.load("keras_distill_docstrings", split="train")
```
"""

import tensorflow_datasets as tfds

from keras_distill.data import docstrings


class KerasDistillDocstrings(tfds.core.GeneratorBasedBuilder):
    """Docstring summaries of installed packages, labelled by library."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(
            name="all",
            description="Every library, at most 5,000 sentences each.",
        ),
        tfds.core.BuilderConfig(
            name="small",
            description="numpy and keras, at most 500 sentences each.",
        ),
    ]

    def _info(self):
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(
                {
                    "text": tfds.features.Text(),
                    "label": tfds.features.ClassLabel(names=self._libraries),
                }
            ),
            supervised_keys=("text", "label"),
        )

    @property
    def _libraries(self):
        if self.builder_config.name == "small":
            return ["numpy", "keras"]
        return list(docstrings.LIBRARIES)

    def _split_generators(self, dl_manager):
        del dl_manager  # Nothing is downloaded.
        cap = 500 if self.builder_config.name == "small" else 5000
        splits = docstrings.build(self._libraries, max_per_class=cap)
        return {
            "train": self._generate_examples(splits.train),
            "validation": self._generate_examples(splits.dev),
            "test": self._generate_examples(splits.test),
        }

    def _generate_examples(self, part):
        for row, (text, label) in enumerate(zip(part.texts, part.labels)):
            yield row, {"text": text, "label": int(label)}
