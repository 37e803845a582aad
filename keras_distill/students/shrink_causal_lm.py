"""A causal language model with fewer layers than the teacher's."""

import inspect

import keras_hub

from keras_distill._layers import backbones
from keras_distill.students._shrink_config import check_num_layers
from keras_distill.students._shrink_config import check_plain_weights
from keras_distill.students._shrink_config import complete_layer_map
from keras_distill.students.shrink import copy_backbone


def shrink_causal_lm(teacher, num_layers, layer_map=None):
    """The teacher's causal language model with some of its layers.

    Embeddings, the chosen layers, the last normalisation and the head start as
    copies of the teacher's. The copies are the student's own: training it
    leaves the teacher as it is.

    Args:
        teacher: `keras_hub.models.CausalLM` whose backbone has a list
            `transformer_layers`, such as GPT-2, Llama, Gemma, Mistral or Qwen.
        num_layers: Integer, at most the teacher's.
        layer_map: List of pairs `(teacher_layer, student_layer)`, counted from
            1, one for each layer of the student; or `"first"` or `"even"`, the
            default, as in `shrink`: 12 layers to 4 copies 3, 6, 9 and 12.

    Returns:
        A model of the teacher's class that shares its preprocessor.

    Raises:
        ValueError: If `teacher` is no such model, or `num_layers` or
            `layer_map` do not fit it.

    Example:

    >>> backbone = keras_hub.models.GPT2Backbone(50, 6, 2, 16, 32)
    >>> teacher = keras_hub.models.GPT2CausalLM(backbone)
    >>> student = shrink_causal_lm(teacher, 3)  # Copies layers 2, 4 and 6.
    >>> student.backbone.num_layers, student.backbone.hidden_dim
    (3, 16)

    Reference:
        Sanh et al., 2019, https://arxiv.org/abs/1910.01108, section 3.
    """
    if not isinstance(teacher, keras_hub.models.CausalLM) or not backbones(
        teacher, "transformer_layers"
    ):
        raise ValueError(
            "`teacher` must be a `keras_hub.models.CausalLM` with a list of "
            "`transformer_layers`, such as GPT-2 or Llama. "
            f"Received: teacher={teacher} ({type(teacher).__name__})"
        )
    backbone = teacher.backbone
    check_plain_weights(backbone)
    config = backbone.get_config()
    check_num_layers(num_layers, config)
    tied = "tie_word_embeddings"
    if tied in inspect.signature(type(backbone).__init__).parameters:
        # LlamaBackbone of KerasHub 0.32 forgets it in its config.
        config[tied] = backbone.token_embedding.tie_weights
    config.update(num_layers=num_layers, trainable=True)
    del config["name"]
    small = type(backbone).from_config(config)
    copy_backbone(
        backbone, small, complete_layer_map(layer_map, backbone, config)
    )
    config = teacher.get_config()
    del config["name"]
    config["backbone"] = small
    config["preprocessor"] = teacher.preprocessor
    return type(teacher).from_config(config)
