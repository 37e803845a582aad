"""What scripts outside the repository call: a name that goes breaks them."""

import inspect

import pytest

import keras_distill as kd

NAMES = {
    "": """Distiller Ensemble Match Stage annealing_kd_stages attention_maps
        callbacks data divergences export hidden_states losses schedules
        students temperatures uniform_layer_map""",
    "callbacks": "AnnealTemperature AnnealWeight StageSwitch",
    "data": """EncodedDataset TextDataset TextSplits UNLABELLED batches
        bert_preprocessor encode keep_labels load train_vocabulary
        write_vocabulary""",
    "export": """ExportError ExportOptions ExportReport litert
        measure_latency saved_model""",
    "losses": """AnnealedMSE AttentionCE AttentionMSE BinaryKL FeatureLoss
        FlowOfSolution ForwardKL GeneralizedJSD HiddenCosine HiddenMSE
        LogitsMSE NeuronSelectivity PatientKD ReverseKL SoftCrossEntropy""",
    "students": "bilstm mean_pooled_classifier shrink text_cnn",
}
FUNCTIONS = {
    "divergences": """align_temperature binary_kl forward_kl generalized_jsd
        reverse_kl soft_cross_entropy""",
    "schedules": "Cosine Exponential Linear Piecewise Schedule StepDown",
    "temperatures": "CWSM FLSW cwsm_temperature flsw_temperature",
}

ARGUMENTS = {
    "divergences.forward_kl": "teacher_logits student_logits temperature=1.0",
    "divergences.reverse_kl": "teacher_logits student_logits temperature=1.0",
    "divergences.soft_cross_entropy": (
        "teacher_logits student_logits temperature=1.0"
    ),
    "divergences.generalized_jsd": (
        "teacher_logits student_logits beta=0.5 temperature=1.0"
    ),
    "losses.ForwardKL": "temperature=4.0 temperature_squared=True",
    "losses.ReverseKL": "temperature=4.0 temperature_squared=True",
    "losses.SoftCrossEntropy": "temperature=1.0 temperature_squared=True",
    "losses.GeneralizedJSD": "beta=0.5 temperature=1.0",
    "losses.LogitsMSE": "temperature=1.0",
    "losses.AnnealedMSE": "max_temperature=7",
    "losses.AttentionMSE": "heads='match'",
    "losses.AttentionCE": "heads='match'",
    "Match": "teacher student loss weight=1.0 projection='auto'",
    "hidden_states": "model",
    "uniform_layer_map": "teacher_layers student_layers",
    "Distiller": "teacher student matches=()",
    "Distiller.compile": (
        "self optimizer='rmsprop' loss=None soft_loss='default' "
        "hard_weight=0.5 soft_weight=0.5"
    ),
    "callbacks.AnnealTemperature": "schedule",
    "callbacks.StageSwitch": "stages",
    "annealing_kd_stages": (
        "max_temperature=7 epochs_per_temperature=2 hard_epochs=4"
    ),
    "Ensemble": "models weights=None average='probabilities'",
    "students.shrink": "teacher num_layers=4 hidden_dim=None",
    "students.text_cnn": "num_classes embeddings",
    "students.bilstm": "num_classes embeddings",
    "export.saved_model": "student path preprocessor=None",
    "export.litert": "student path quantization=None calibration=None",
}


def look_up(path):
    thing = kd
    for name in filter(None, path.split(".")):
        thing = getattr(thing, name)
    return thing


def public(module):
    return {name for name in vars(module) if not name.startswith("_")}


def submodules(module):
    """Modules inside the package are there once they are imported."""
    return {
        name
        for name, value in vars(module).items()
        if inspect.ismodule(value) and name not in NAMES[""].split()
    }


@pytest.mark.parametrize("module", NAMES)
def test_public_names(module):
    thing = look_up(module)
    assert public(thing) - submodules(thing) == set(NAMES[module].split())


@pytest.mark.parametrize("module", FUNCTIONS)
def test_public_functions(module):
    """The functions and classes that a module defines itself."""
    thing = look_up(module)
    defined = {
        name
        for name in public(thing)
        if getattr(getattr(thing, name), "__module__", "") == thing.__name__
    }
    assert defined == set(FUNCTIONS[module].split())


@pytest.mark.parametrize("path", ARGUMENTS)
def test_arguments_by_position(path):
    parameters = inspect.signature(look_up(path)).parameters.values()
    written = [
        p.name if p.default is p.empty else f"{p.name}={p.default!r}"
        for p in parameters
    ]
    expected = ARGUMENTS[path].split()
    assert written[: len(expected)] == expected
