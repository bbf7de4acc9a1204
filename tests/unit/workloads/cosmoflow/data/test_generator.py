"""The generator is deterministic, uses the official names, and its statistics follow the parameters."""

from pathlib import Path

import numpy as np
import pytest
from unit.data.record_files import read_records
from unit.refusals import refused

from hpcai.core.errors import DatasetError
from hpcai.workloads.cosmoflow.data import generator
from hpcai.workloads.cosmoflow.data.generator import TOO_YOUNG, generate_dataset, make_sample
from hpcai.workloads.cosmoflow.data.sample import decode_sample
from hpcai.workloads.cosmoflow.settings import CosmoFlowData, Priors

SHAPE = (16, 16, 16, 4)


def settings(**changes: object) -> CosmoFlowData:
    values = {"dataset": "tiny", "source": "generate", "edge": 16, "train_samples": 4, "validation_samples": 2}
    return CosmoFlowData.model_validate({**values, **changes})


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.tfrecord"))}


@pytest.mark.parametrize("edition", ["gzip", "plain"])
def test_workers_do_not_change_a_byte(tmp_path: Path, edition: str) -> None:
    facts = [generate_dataset(settings(edition=edition), tmp_path / str(n), workers=n) for n in (1, 2)]
    first, second = (files(tmp_path / str(n)) for n in (1, 2))
    assert first == second
    assert facts[0] == facts[1]
    assert next(iter(first)) == "train/univ_ics_train_a000001_000.tfrecord"
    assert len(first) == 6
    (payload,) = read_records(tmp_path / "1" / next(iter(first)), compressed=edition == "gzip")
    x, y = decode_sample(payload, SHAPE)
    expected_x, expected_y = make_sample(settings(), "train", 0)
    assert (x == expected_x).all()
    assert (y == expected_y).all()


def test_samples_splits_and_seeds_differ() -> None:
    cubes = [make_sample(settings(seed=s), split, n)[0] for s, split, n in
             [(1, "train", 0), (1, "train", 1), (1, "validation", 0), (2, "train", 0)]]  # fmt: skip
    assert len({cube.tobytes() for cube in cubes}) == 4


def test_a_longer_dataset_begins_with_a_shorter_one() -> None:
    short, long = (make_sample(settings(train_samples=n), "train", 2) for n in (3, 100))
    assert (short[0] == long[0]).all()
    assert (short[1] == long[1]).all()


def test_mean_follows_omega_m_and_targets_are_scaled() -> None:
    samples = [make_sample(settings(train_samples=32), "train", n) for n in range(32)]
    targets = np.array([y for _, y in samples])
    assert targets.min() >= -1
    assert targets.max() <= 1
    means = np.array([x[..., 0].mean() for x, _ in samples])
    assert np.corrcoef(means, targets[:, 0])[0, 1] > 0.9


def test_too_young_a_universe() -> None:
    with refused(DatasetError, TOO_YOUNG, place="priors"):
        generate_dataset(settings(priors=Priors(omega_m=(0.5, 0.9), h_0=(90.0, 150.0))), Path("unused"))


def test_no_count_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "MEAN_COUNT", 1e5)
    with pytest.raises(DatasetError, match="found the count"):
        make_sample(settings(), "train", 0)
