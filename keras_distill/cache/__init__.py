"""The teacher's signals on disk: written once, attached to the data."""

from keras_distill.cache.beam import write_with_beam as write_with_beam
from keras_distill.cache.folders import CacheError as CacheError
from keras_distill.cache.forms import Sampled as Sampled
from keras_distill.cache.forms import TopK as TopK
from keras_distill.cache.layout import Layout as Layout
from keras_distill.cache.manifests import Manifest as Manifest
from keras_distill.cache.reader import attach as attach
from keras_distill.cache.sparse import dense_logits as dense_logits
from keras_distill.cache.sparse import sparse_forward_kl as sparse_forward_kl
from keras_distill.cache.sparse_loss import SparseForwardKL as SparseForwardKL
from keras_distill.cache.writer import write as write
