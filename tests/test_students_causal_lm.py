"""Causal language models with fewer layers."""

import keras
import keras_hub
import numpy as np
import pytest
import tiny_lm

from keras_distill.students import shrink_causal_lm


def logits(model, tokens):
    return keras.ops.convert_to_numpy(model(tokens))


@pytest.mark.parametrize(
    "teacher",
    [tiny_lm.gpt2(), tiny_lm.llama(), tiny_lm.llama(tied=True)],
    ids=["gpt2", "llama", "llama, tied"],
)
def test_all_layers_give_the_teacher_again(teacher):
    tokens = tiny_lm.tokens()
    student = shrink_causal_lm(teacher, 2)
    assert type(student) is type(teacher)
    assert student.count_params() == teacher.count_params()
    np.testing.assert_array_equal(
        logits(student, tokens), logits(teacher, tokens)
    )
    before = logits(teacher, tokens)
    for variable in student.trainable_variables:
        variable.assign(variable + 1)
    np.testing.assert_array_equal(logits(teacher, tokens), before)


@pytest.mark.parametrize(
    ("layer_map", "copied"), [(None, [1, 3]), ([(1, 1), (2, 2)], [0, 1])]
)
def test_the_map_says_which_layers_are_copied(layer_map, copied):
    teacher = tiny_lm.gpt2(layers=4)
    student = shrink_causal_lm(teacher, 2, layer_map)
    for layer, source in zip(student.backbone.transformer_layers, copied):
        twin = teacher.backbone.transformer_layers[source]
        for ours, theirs in zip(layer.get_weights(), twin.get_weights()):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((tiny_lm.gpt2().backbone, 1), "must be a `keras_hub.models.CausalLM`"),
        ((tiny_lm.gpt2(), 3), "at most the teacher's, 2"),
        ((tiny_lm.gpt2(), 0), "num_layers"),
        ((tiny_lm.gpt2(), 1, [(5, 1)]), "teacher layers from 1 to 2"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        shrink_causal_lm(*arguments)


def test_the_preprocessor_is_shared():
    teacher = keras_hub.models.GPT2CausalLM(tiny_lm.gpt2().backbone)
    assert shrink_causal_lm(teacher, 1).preprocessor is teacher.preprocessor
