"""The same bytes from an Apache Beam pipeline."""

import importlib.util
import os
import pathlib
import sys

import cache_job
import pytest

from keras_distill import cache
from keras_distill.cache.beam import ShardWriter

BEAM = importlib.util.find_spec("apache_beam")
needs_beam = pytest.mark.skipif(
    BEAM is None, reason="needs apache-beam: pip install 'keras-distill[beam]'"
)
TESTS = pathlib.Path(__file__).parent
PROCESSES = ["--direct_num_workers=2"]
PROCESSES += ["--direct_running_mode=multi_processing"]


def contents(folder):
    return {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if file.name != ".lock"
    }


@pytest.mark.skipif(BEAM is not None, reason="apache-beam is installed")
def test_without_beam(tmp_path):
    with pytest.raises(ImportError, match=r"pip install 'keras-distill\[beam"):
        cache.write_with_beam(cache_job.teacher, cache_job.rows, tmp_path)


@pytest.mark.parametrize(
    ("rows", "logits"),
    [
        ("rows", "full"),
        ("counted_rows", "full"),
        ("rows", cache.TopK(2)),
        ("rows", cache.Sampled(5, seed=1)),
    ],
)
def test_shards_in_any_order(tmp_path, rows, logits):
    """What the workers do, without a pipeline: last shard first."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    make = getattr(cache_job, rows)
    options = {"layout": cache_job.LAYOUT, "logits": logits}
    cache.write(cache_job.teacher(), make(), whole, **options)
    number = len(list(whole.glob("shard-*")))
    for shard in reversed(range(number)):
        writer = ShardWriter(cache_job.teacher, make, str(parts), options)
        writer(shard)
    for name, data in contents(whole).items():
        if name.startswith("shard-"):
            assert (parts / name).read_bytes() == data


@needs_beam
@pytest.mark.large
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("rows", "flags", "logits"),
    [
        ("rows", PROCESSES, cache.Sampled(5, seed=1)),
        ("counted_rows", [], "full"),
    ],
)
def test_a_pipeline_writes_the_same_bytes(
    tmp_path, monkeypatch, rows, flags, logits
):
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), *sys.path])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("PROCESSES", str(tmp_path / "processes"))
    whole, beam = tmp_path / "whole", tmp_path / "beam"
    make = getattr(cache_job, rows)
    options = {"layout": cache_job.LAYOUT, "logits": logits}
    cache.write(cache_job.teacher(), make(), whole, **options)
    for _ in range(2):  # The second time there is nothing left to do.
        manifest = cache.write_with_beam(
            cache_job.teacher, make, beam, flags, **options
        )
        assert contents(beam) == contents(whole)
    assert manifest == cache.Manifest.load(whole)
    processes = set((tmp_path / "processes").read_text().split())
    assert (processes != {str(os.getpid())}) == bool(flags)


@needs_beam
@pytest.mark.large
@pytest.mark.filterwarnings("default")
def test_a_pipeline_needs_examples(tmp_path):
    with pytest.raises(ValueError, match="at least one example"):
        cache.write_with_beam(cache_job.teacher, cache_job.no_rows, tmp_path)
