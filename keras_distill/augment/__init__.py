"""Transfer sets: new text from old, for a teacher to label."""

from keras_distill.augment.masked_lm import (
    MaskedLMReplacement as MaskedLMReplacement,
)
from keras_distill.augment.neighbours import (
    EmbeddingReplacement as EmbeddingReplacement,
)
from keras_distill.augment.neighbours import neighbour_table as neighbour_table
from keras_distill.augment.same_context import (
    SameContextReplacement as SameContextReplacement,
)
from keras_distill.augment.texts import deduplicate as deduplicate
from keras_distill.augment.texts import read_texts as read_texts
from keras_distill.augment.texts import text_key as text_key
from keras_distill.augment.tokens import delete_tokens as delete_tokens
from keras_distill.augment.tokens import mask_tokens as mask_tokens
from keras_distill.augment.tokens import replace_tokens as replace_tokens
from keras_distill.augment.tokens import (
    sample_token_ngram as sample_token_ngram,
)
from keras_distill.augment.transfer import transfer_set as transfer_set
from keras_distill.augment.words import Chain as Chain
from keras_distill.augment.words import Deletion as Deletion
from keras_distill.augment.words import Masking as Masking
from keras_distill.augment.words import MaskOrReplace as MaskOrReplace
from keras_distill.augment.words import NGramSampling as NGramSampling
