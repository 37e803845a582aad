"""Data of texts and of images: sources, vocabularies and tf.data pipelines."""

from keras_distill.data.bucketing import bucket_lengths as bucket_lengths
from keras_distill.data.embedded import VectorSplits as VectorSplits
from keras_distill.data.images import ImageSplits as ImageSplits
from keras_distill.data.images import load_images as load_images
from keras_distill.data.label_sets import MultiLabelSplits as MultiLabelSplits
from keras_distill.data.labelled import UNLABELLED as UNLABELLED
from keras_distill.data.labelled import ImageDataset as ImageDataset
from keras_distill.data.labelled import TextDataset as TextDataset
from keras_distill.data.labelled import has_label as has_label
from keras_distill.data.labelled import missing_labels as missing_labels
from keras_distill.data.pipelines import EncodedDataset as EncodedDataset
from keras_distill.data.pipelines import batches as batches
from keras_distill.data.pipelines import encode as encode
from keras_distill.data.prompts import PromptSplits as PromptSplits
from keras_distill.data.prompts import load_prompts as load_prompts
from keras_distill.data.scores import ScoreSplits as ScoreSplits
from keras_distill.data.sources import load as load
from keras_distill.data.splits import Splits as Splits
from keras_distill.data.splits import keep_labels as keep_labels
from keras_distill.data.tags import TagSplits as TagSplits
from keras_distill.data.text_splits import TextSplits as TextSplits
from keras_distill.data.vocabulary import bert_preprocessor as bert_preprocessor
from keras_distill.data.vocabulary import train_vocabulary as train_vocabulary
from keras_distill.data.vocabulary import write_vocabulary as write_vocabulary
