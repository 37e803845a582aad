"""What each kind of layer does with units; a further one is a file here."""

from keras_distill.pruning.rules import alone as alone
from keras_distill.pruning.rules import attention as attention
from keras_distill.pruning.rules import convolutions as convolutions
from keras_distill.pruning.rules import dense as dense
from keras_distill.pruning.rules import encoders as encoders
from keras_distill.pruning.rules import merges as merges
from keras_distill.pruning.rules import recurrent as recurrent
from keras_distill.pruning.rules import shapes as shapes
from keras_distill.pruning.rules.base import NotUnderstood as NotUnderstood
from keras_distill.pruning.rules.base import Reading as Reading
from keras_distill.pruning.rules.base import Weight as Weight
from keras_distill.pruning.rules.base import places_of as places_of
from keras_distill.pruning.rules.base import read as read
