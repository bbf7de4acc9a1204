"""Settings of a study for the predictors."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from hpcai.config.load import load_campaign
from hpcai.config.prediction import Prediction
from hpcai.core.errors import ConfigError

CONFIG = Path(__file__).parents[3] / "config"
LINK = {"name": "hdr", "bandwidth_bytes_per_s": "200 Gbit/s", "latency_s": "1 us"}


def study(**predict: Any) -> dict[str, Any]:
    return {**yaml.safe_load((CONFIG / "study.yaml").read_text()), "predict": predict}


def test_by_default_nothing_is_measured_for_predictions() -> None:
    assert Prediction() == Prediction(
        kernel_samples=0, reference_networks=(), hpl_tests=(), ranks=(), links=(), precisions=(), compressions=()
    )


def test_links_are_read_with_their_units() -> None:
    (link,) = Prediction.model_validate({"links": [LINK]}).links
    assert (link.bandwidth_bytes_per_s, link.latency_s) == (25e9, pytest.approx(1e-6))


@pytest.mark.parametrize(
    ("predict", "says"),
    [
        ({"hpl_tests": [{"order": 100, "block": 128}]}, "less than block 128"),
        ({"hpl_tests": [{"order": 0, "block": 1}]}, "order"),
        ({"links": [LINK, LINK]}, "each name once"),
        ({"links": [{**LINK, "latency_s": 0}]}, "latency_s"),
        ({"links": [{**LINK, "bandwidth_bytes_per_s": "200 s"}]}, "no quantity"),
        ({"ranks": [2, 2]}, "each value once"),
        ({"ranks": [0]}, "ranks"),
        ({"precisions": ["fp8"]}, "precisions"),
        ({"kernel_samples": -1}, "kernel_samples"),
    ],
)
def test_what_makes_no_sense_is_refused(predict: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Prediction.model_validate(predict)


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ({"order": 1000, "block": 100, "process_columns": 3}, "found 3; allowed: at most 2 processes"),
        ({"order": 40000, "block": 100}, "found 40000; allowed: at most 32768: the matrix must fit"),
    ],
)
def test_a_run_of_hpl_must_fit_the_machine(test: dict[str, int], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_campaign(study(hpl_tests=[test]), CONFIG)


def test_the_default_study_fits_its_machine() -> None:
    campaign = load_campaign(yaml.safe_load((CONFIG / "study.yaml").read_text()), CONFIG)
    assert campaign.study.predict.kernel_samples >= 1000
