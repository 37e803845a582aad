"""What scripts outside the repository call: a name that goes breaks them."""

import ast
import importlib.metadata
import inspect
import pathlib
import subprocess
import sys

import pytest

import keras_distill as kd

NAMES = {
    "": """Distiller Ensemble GKDDistiller Match Stage annealing_kd_stages
        attention_maps attention_vectors augment cache callbacks compare
        compress data distill divergences experiments export feature_maps gkd
        hidden_states layout_map losses pruning quantization
        recipes schedules students tasks temperatures uniform_layer_map""",
    "augment": """Chain Deletion EmbeddingReplacement MaskOrReplace
        MaskedLMReplacement Masking NGramSampling SameContextReplacement
        deduplicate delete_tokens mask_tokens neighbour_table read_texts
        replace_tokens sample_token_ngram text_key transfer_set""",
    "cache": """CacheError Layout Manifest Sampled SparseForwardKL TopK attach
        dense_logits sparse_forward_kl write write_with_beam""",
    "callbacks": """AnnealTemperature AnnealWeight Backup StageSwitch
        continuation_kd""",
    "data": """EncodedDataset ImageDataset ImageSplits MultiLabelSplits
        PromptSplits ScoreSplits Splits TagSplits TextDataset TextSplits
        UNLABELLED VectorSplits batches bert_preprocessor bucket_lengths
        encode has_label keep_labels load load_images load_prompts
        missing_labels train_vocabulary write_vocabulary""",
    "divergences": """adaptive_kl align_temperature alpha_beta binary_kl
        forward_kl generalized_jsd reverse_kl skew_kl skew_reverse_kl
        soft_cross_entropy total_variation""",
    "experiments": """Cell Grid LanguageModelSettings Phase Preparation Prepared
        RunFolder Teacher TeacherSource Tuned Watcher compare compress
        default_recipes
        distill distill_language_model fine_tune fine_tune_adaptively
        fine_tune_contrastively
        prepare tune""",
    "export": """ExportError ExportReport StaticVectors litert measure_latency
        model_card saved_model vectors""",
    "gkd": """DatasetResponses GKDDistiller GKDPreprocessor Generator
        LanguageModel ReplayBuffer Rows Sampling Source StudentSampler
        TeacherSampler WritingScorer WritingScores fine_tune
        token_divergence""",
    "losses": """AdaptiveKL AlphaBeta AnnealedMSE AttentionCE AttentionMSE
        AttentionTransfer SimilarityPreserving
        BinaryKL ContinuationMSE DIST DKD FeatureLoss FlowOfSolution ForwardKL
        GeneralizedJSD HiddenCosine HiddenMSE LogitsLoss LogitsMSE
        MiniLMRelation NKD NeighbourKL NeuronSelectivity PatientKD RKDAngle
        RKDDistance
        ReverseKL SkewKL SkewReverseKL SoftBinaryCrossEntropy SoftCrossEntropy
        StandardizedKL TTM TotalVariation VectorCosine WSLD WTTM""",
    "pruning": """Group Structure block_influence cut importance layer_map
        low_rank merge merged occurring prune search
        structure unfold vocabulary""",
    "quantization": """QuantizationAware""",
    "recipes": """Recipe annealing attention continuation hard hidden kd mse
        neighbours pooled two_stage untrained""",
    "students": """BiLSTM ConvNet Custom NGram Saved Shrink Static Student
        TextCNN
        bi_encoder bilstm bilstm_tagger cnn_tagger conv_net
        mean_pooled_classifier
        ngram shrink shrink_causal_lm siamese static text_cnn
        token_classifier""",
    "tasks": """ImageClassification MultiLabelClassification
        PairClassification Task
        TextClassification TextRegression TextVectors TokenClassification""",
}
FUNCTIONS = {
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
    "GKDDistiller": (
        "teacher student beta=0.5 lmbda=0.5 seq_kd=False temperature=0.9 "
        "loss_temperature=1.0 max_completion_length=512 "
        "granularity='sample' seed=None"
    ),
    "cache.write": "teacher dataset path",
    "cache.attach": "dataset path",
    "students.shrink": "teacher num_layers=4 hidden_dim=None",
    "students.text_cnn": "num_classes embeddings",
    "students.bilstm": "num_classes embeddings",
    "students.ngram": "num_classes embeddings",
    "students.static": "num_outputs embeddings",
    "export.saved_model": "student path preprocessor=None",
    "export.litert": "student path quantization=None calibration=None",
}


def look_up(path):
    thing = kd
    for name in filter(None, path.split(".")):
        thing = getattr(thing, name)
    return thing


def public(module):
    return {name for name in dir(module) if not name.startswith("_")}


def submodules(module):
    """Modules inside a package are there once they are imported."""
    return {
        name
        for name in public(module)
        if module is not kd and inspect.ismodule(getattr(module, name))
    }


@pytest.mark.parametrize("module", NAMES)
def test_public_names(module):
    thing = look_up(module)
    assert public(thing) - submodules(thing) == set(NAMES[module].split())
    assert all(getattr(thing, name) is not None for name in public(thing))


def test_editors_see_what_there_is():
    tree = ast.parse(pathlib.Path(kd.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {}
    for line in block.body:
        for alias in line.names:
            module = line.module.partition(".")[2]
            seen[alias.asname] = module or alias.name
    assert seen == dict(zip(kd._MODULES, kd._MODULES)) | kd._NAMES


def test_the_version():
    assert kd.__version__ == importlib.metadata.version("keras-distill")


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="has no attribute 'distil'"):
        kd.distil  # noqa: B018


def test_help_does_not_wait_for_tensorflow():
    code = (
        "import sys, keras_distill\n"
        "from keras_distill.cli import entry_point\n"
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


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
