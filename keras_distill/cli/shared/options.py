"""Groups of options that several commands have, as `--help` shows them."""

import dataclasses
import pathlib
from typing import Literal

from keras_distill._kinds import AUGMENTATIONS
from keras_distill._kinds import TASKS

Auto = Literal["auto"]
AUTO = "auto"


@dataclasses.dataclass(frozen=True)
class Source:
    """What is learnt, and from whom.

    Args:
        teacher: The large model. 'embedded': a 2-layer BERT, or of images a
            residual network, trained here from scratch, no download. Or a
            KerasHub preset name (bert_base_en_uncased), a local folder with a
            KerasHub preset or a Hugging Face model, or a saved .keras file. It
            is fine-tuned on the labels, unless it classifies already.
        data: The texts, or images. 'docstrings': summaries of the installed
            packages' functions, labelled by library, no download. Or a .tsv,
            .csv or .jsonl file, a folder with train, dev and test as such
            files, or 'tfds:NAME', such as tfds:glue/sst2. Images: 'digits',
            an .npz file, or a folder with a folder for each class.
    """

    teacher: str = "embedded"
    data: str = "docstrings"


@dataclasses.dataclass(frozen=True)
class Repeated:
    """What to do with an earlier run.

    Args:
        smoke: Tiny models on a few texts: seconds, to see that everything runs.
        redo: Where the output folder holds phases made with other options, make
            them again, and those that follow from them.
    """

    smoke: bool = False
    redo: bool = False


@dataclasses.dataclass(frozen=True)
class Compared(Repeated):
    """How often, and what to do with an earlier run.

    Args:
        keep_weak_teacher: Imitate the teacher even where it is worse on dev
            than the linear model or than a student on labels alone. Otherwise
            the run ends with these.
        seeds: One number: how many seeds, counted from 0. Several: the seeds
            themselves. Each one trains every student anew, on labels of its
            own.
    """

    keep_weak_teacher: bool = False
    seeds: tuple[int, ...] = (1,)


@dataclasses.dataclass(frozen=True)
class Texts:
    """How texts become numbers.

    Args:
        text_column: Column (or TFDS feature) with the text. None: 'text', or
            the one such as 'sentence' or 'review' that a file has instead,
            or of two columns that which is no label.
        label_column: Column (or TFDS feature) with the label. None: 'label',
            or 'score' or 'labels' where there is none, or the one such as
            'sentiment', or of two columns that which is no text, or whose
            fields repeat. Several labels in a column each: toxic,insult.
        text_pair_column: Column (or TFDS feature) with the second text, where
            each row is a pair. None: one text in each row, unless a file has
            no column 'text' but two such as 'sentence1' and 'sentence2'.
        labels: Rows whose label the student may see; the others are text
            without label for it. auto: 1000 for docstrings, all for other data.
        sequence_length: Tokens per text, longer ones are cut. auto: 32 for
            docstrings, else what holds 99 % of the train texts, at most 512,
            with a pretrained teacher 256.
        vocabulary: WordPiece vocabulary (vocab.txt) of a teacher in a .keras
            file that holds no tokenizer. None: a vocab.txt beside the file.
        min_count: Of the teacher's WordPiece vocabulary keep the tokens that
            the train texts need so often, and what spells all other words: 1
            for the same outputs on them and a file without the rest. None: all.
        task: What is learnt: a class for each text, for each pair of texts, or
            for each image; a score; any of several labels; a tag for each
            word; or, without labels, a vector for each text. auto: what files
            and the label's column are called; of classes pairs where there are
            two columns of text.
    """

    text_column: str | None = None
    label_column: str | None = None
    text_pair_column: str | None = None
    labels: int | Literal["auto", "all"] = "auto"
    sequence_length: int | Auto = "auto"
    vocabulary: pathlib.Path | None = None
    min_count: int | None = None
    task: Literal["auto", *TASKS] = "auto"


@dataclasses.dataclass(frozen=True)
class Images:
    """How images become numbers.

    Args:
        image_size: Height and width that images are brought to. auto: what a
            teacher in a .keras file takes, else as they are, which must all be
            of one size.
        augmentation: What is done to train images in each step: moved by up to
            an eighth, mirrored. auto: moved, and mirrored where a linear model
            knows mirrored images as well. none: as they are; the teacher then
            runs once for all.
    """

    image_size: int | Auto = AUTO
    augmentation: Literal["auto", *AUGMENTATIONS] = AUTO


@dataclasses.dataclass(frozen=True)
class Transfer:
    """Further text for the student to imitate the teacher on.

    None of it occurs in train, dev or test; the teacher labels all of it.

    Args:
        transfer: 'augment:20': 20 variations of each train text, with words
            masked, replaced, left out or cut. None: no such text. auto: up to
            20 for 40,000 texts in all, where a pretrained teacher can label
            them for a student other than shrink.
        unlabelled: File with texts without labels: a .txt file, one text a
            line, or a .tsv, .csv or .jsonl file with the text column. None:
            none.
    """

    transfer: str | None = AUTO
    unlabelled: pathlib.Path | None = None


@dataclasses.dataclass(frozen=True)
class Teaching:
    """How the teacher is fine-tuned: AdamW with warm-up.

    Args:
        teacher_epochs: Passes over the labelled rows. auto: as long as dev goes
            on improving, and 0 for a teacher that classifies already.
        teacher_learning_rate: Peak learning rate. auto: of three rates the one
            that does best on dev; with a number of epochs, 5e-4 for the
            embedded teacher, else 5e-5.
        teacher_minutes: The most time that choosing the rate and fine-tuning
            may take, where the epochs are auto; and labelling a transfer set
            that is auto.
        teacher_batch_size: Texts in each step.
        teacher_start: What of a pretrained teacher of single texts is
            fine-tuned. encoder: a new head on it. contrastive: before that its
            vectors learn which texts are of one class, as in SetFit. auto: so
            where it sees at most 1,000 labels.
        teacher_labels: Whose labels it sees. all: all that there are. student:
            those that a student of the seed 0 sees, see labels.
    """

    teacher_epochs: int | Auto = "auto"
    teacher_learning_rate: float | Auto = "auto"
    teacher_minutes: float = 10.0
    teacher_batch_size: int = 32
    teacher_start: Literal["auto", "encoder", "contrastive"] = "auto"
    teacher_labels: Literal["all", "student"] = "all"


@dataclasses.dataclass(frozen=True)
class Beam:
    """Where the work is done. All runners give the same.

    Args:
        runner: None: in this process. Or the name of a runner of Apache Beam:
            DirectRunner, DataflowRunner, FlinkRunner, SparkRunner. The output
            folder must be one that all workers share.
        beam_flags: Further flags of Beam, each as NAME=VALUE, such as
            direct_num_workers=4 direct_running_mode=multi_processing.
    """

    runner: str | None = None
    beam_flags: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Learning:
    """How the students are trained: in all ways alike.

    Args:
        width: Width of the student: of embeddings and filters (text_cnn),
            embeddings and states (bilstm), embeddings and n-grams (ngram),
            states (shrink), the first stage's channels (conv_net), the table
            of tokens (static). auto: 64, 128 with the embeddings of a
            pretrained teacher, 32 for ngram, 16 for conv_net, 256 for static,
            and the teacher's for shrink.
        depth: Layers of the student conv_net, 6 n + 2. auto: 8.
        embeddings: Where those of text_cnn, bilstm and ngram start. random: new
            ones. teacher: a copy of the teacher's, as wide as there; width is
            then that of filters, states or n-grams alone. vectors: what the
            teacher says of each token alone. auto: new ones with the embedded
            teacher; else vectors, and for bilstm the teacher's, both in 128
            columns where there are more.
        embedding_rank: Columns of the table of embeddings of text_cnn, bilstm
            and ngram, which a linear map then widens: smaller files, faster
            steps. None: a whole table.
        buckets: Rows of the table of n-grams of the student ngram. auto: 65536.
        ngram_buckets: Rows of a table of n-grams beside the convolutions of
            text_cnn. None: convolutions alone. auto: 16384 with the embedded
            teacher, else none.
        linear_part: Whether a linear model of tokens and of pairs of them
            stands beside the trained text_cnn, bilstm or ngram, of classes or
            several labels of single texts, where it is better on dev.
        layers: Layers of the student shrink. auto: half of the teacher's.
        layer_map: Which of the teacher's layers shrink copies. first: those
            next to the input. even: one in so many, the last one included.
            auto: even for a bi-encoder, else first.
        pair_encoder: How shrink reads the texts of a pair. cross: in one row,
            as the teacher does. bi: each by itself, and compares them. auto:
            bi for scores, where the teacher's layers can, else cross.
        copy_from: A .keras file or a preset whose encoder's layers shrink
            copies instead of the teacher's, such as the encoder that the
            teacher was made of, or a student of vectors.
        student_file: The .keras file of the student saved, such as a pruned
            teacher: it goes on from its weights. Its inputs are the teacher's.
        epochs: Passes over the train part; all ways of training take as many
            steps, and are scored on dev after each. auto: 10, 20 for ngram, 30
            for conv_net, and 4 for shrink; more with transfer text, half as
            many passes over all of it; and up to 30, 60 for conv_net, 10 for
            shrink, 100 for static, where the rows are few.
        learning_rate: Peak learning rate of Adam. auto: 2e-3, 1e-3 with the
            embeddings of a pretrained teacher, 5e-3 for ngram, 3e-3 for
            conv_net; for shrink the teacher's, or 5e-5.
        batch_size: Texts in each step.
        quantization: int4: trained under the rounding of an int4 file, the half
            of int8, and exported as that. int8: of weights and activations.
            None: floats, rounded afterwards.
    """

    width: int | Auto = AUTO
    depth: int | Auto = AUTO
    embeddings: Literal["auto", "random", "teacher", "vectors"] = "auto"
    embedding_rank: int | None = None
    buckets: int | Auto = AUTO
    ngram_buckets: int | None | Auto = AUTO
    linear_part: bool = True
    layers: int | Auto = AUTO
    layer_map: Literal["auto", "first", "even"] = AUTO
    pair_encoder: Literal["auto", "cross", "bi"] = AUTO
    copy_from: str | None = None
    student_file: pathlib.Path | None = None
    epochs: int | Auto = AUTO
    learning_rate: float | Auto = AUTO
    batch_size: int = 64
    quantization: Literal["int4", "int8"] | None = None


def given(group):
    """Dict of the options in a group that are not as they are by default.

    Args:
        group: A dataclass of options, such as `Learning`.
    """
    return {
        field.name: getattr(group, field.name)
        for field in dataclasses.fields(group)
        if getattr(group, field.name) != field.default
    }


def flag(name):
    """An option as it is typed.

    Example:

    >>> flag("embedding_rank")
    '`--embedding-rank`'
    """
    return f"`--{name.replace('_', '-')}`"
