import numpy as np
import pytest
from unit.data.data_samples import small_cubes, write_dataset

from hpcai.config.benchmark import PackSettings
from hpcai.data import codec_choice
from hpcai.data.codec_choice import CANDIDATES, CHOICE, CodecChoice, Storage, best_codec, storage_rate, try_codec
from hpcai.data.pack import pack_dataset

SLOW, FAST = Storage(1e6, 2), Storage(1e12, 2)
COUNTS = [np.random.default_rng(seed).poisson(0.7, 50_000).astype("<i2").tobytes() for seed in range(3)]
NOISE = [np.random.default_rng(seed).bytes(100_000) for seed in range(3)]


def chosen(contents, storage):
    return best_codec(tuple(try_codec(codec, 1, contents, storage) for codec in CANDIDATES))


@pytest.mark.parametrize(
    ("contents", "storage", "codec"),
    [(COUNTS, SLOW, "shuffle_zstd"), (COUNTS, FAST, "none"), (NOISE, SLOW, "none"), (NOISE, FAST, "none")],
)
def test_slow_storage_asks_for_compression_where_it_helps(contents, storage, codec):
    assert chosen(contents, storage) == codec


def test_reading_and_decoding_overlap():
    assert Storage(100.0, 2).staging_rate(3.0, 1000.0) == 300.0
    assert Storage(100.0, 2).staging_rate(3.0, 50.0) == 100.0


def test_storage_is_read_whole_and_left_clean(tmp_path, monkeypatch):
    monkeypatch.setattr(codec_choice, "PROBE_BYTES", 1 << 20)
    monkeypatch.setattr(codec_choice, "PROBE_READ_BYTES", 1 << 18)
    assert storage_rate(tmp_path) > 0
    assert list(tmp_path.iterdir()) == []


def test_a_choice_is_made_once(tmp_path, monkeypatch):
    rates = [1e6]
    monkeypatch.setattr(codec_choice, "storage_rate", lambda _: rates.pop())
    dataset = write_dataset(tmp_path / "data", 12, 4)
    settings = PackSettings(codec="auto", shards=2)

    def pack(data=dataset):
        return pack_dataset(data, small_cubes(data.edition), tmp_path / "data", settings, tmp_path / "packed")

    first = pack()
    choice = CodecChoice.model_validate_json((tmp_path / "packed" / CHOICE).read_bytes())
    assert first.codec == choice.codec == "shuffle_zstd"
    assert choice.storage_bytes_per_s == 1e6
    assert pack().shards == first.shards
    rates.append(1e12)
    assert pack(dataset.model_copy(update={"statistics": {"mean": (1.0,)}})).codec == "none"
