"""Cutting units out of trained models: smaller and dense, no masks."""

from keras_distill.pruning.blocks import block_influence as block_influence
from keras_distill.pruning.blocks import layer_map as layer_map
from keras_distill.pruning.cutting import cut as cut
from keras_distill.pruning.cutting import prune as prune
from keras_distill.pruning.graph import Group as Group
from keras_distill.pruning.graph import Structure as Structure
from keras_distill.pruning.graph import structure as structure
from keras_distill.pruning.importances import importance as importance
from keras_distill.pruning.low_ranks import low_rank as low_rank
from keras_distill.pruning.merging import merge as merge
from keras_distill.pruning.merging import merged as merged
from keras_distill.pruning.occurring import occurring as occurring
from keras_distill.pruning.searching import search as search
from keras_distill.pruning.unfolding import unfold as unfold
from keras_distill.pruning.vocabularies import vocabulary as vocabulary
