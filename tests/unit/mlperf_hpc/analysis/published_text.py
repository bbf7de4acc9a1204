"""The numbers that the text of the MLPerf HPC paper derives from the first round, computed from its logs."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hpcai.mlperf_hpc.analysis.round_tables import efficiency, speedup
from hpcai.mlperf_hpc.analysis.run_quantities import NAN

TEXT_COLUMNS = ("statement", "quantity", "value_ratio", "reason")
SUBMISSIONS: Mapping[str, tuple[str, str]] = {
    "Piz-Daint-128": ("CSCS/daint_gpu_n128_tf2.2.0", "cosmoflow"),
    "Piz-Daint-256": ("CSCS/daint_gpu_n256_tf2.2.0", "cosmoflow"),
    "ABCI-512": ("Fujitsu/abci_512xV100_tensorflow_closed", "cosmoflow"),
    "*ABCI-2048": ("Fujitsu/abci_2048xV100_tensorflow_open", "cosmoflow"),
    "Fugaku-512": ("RIKEN/fugaku_512xA64FX_tensorflow_closed", "cosmoflow"),
    "Fugaku-8192": ("Fujitsu/fugaku_8192xA64FX_tensorflow_closed", "cosmoflow"),
    "*Fugaku-16384": ("Fujitsu/fugaku_16384xA64FX_tensorflow_open", "cosmoflow"),
    "Cori-GPU-64": ("LBNL/corigpu_n64_tf1.15.0", "cosmoflow"),
    "Cori-KNL-512": ("LBNL/coriknl_n512_tf1.15.2", "cosmoflow"),
    "*Cori-KNL-1024": ("LBNL/coriknl_n1024_tf1.15.2", "cosmoflow"),
    "HAL-64": ("NCSA/halv100_n16_tf1.15.0", "cosmoflow"),
    "Frontera-RTX-64": ("TACC/frontera_rtx_n16_tf1.15.2_lbs1", "cosmoflow"),
    "DeepCAM Cori-GPU-64": ("LBNL/corigpu_n64_pt1.6.0", "deepcam"),
    "DeepCAM ABCI-1024": ("Fujitsu/abci_1024xV100_pytorch_closed", "deepcam"),
    "DeepCAM *ABCI-1024": ("Fujitsu/abci_1024xV100_fjpytorch_open", "deepcam"),
}
"""The paper's names of the submissions of v0.7 that its text compares."""

Row = Mapping[Any, Any]


@dataclass(frozen=True)
class _Paper:
    """The results of v0.7 by the paper's names."""

    rows: Mapping[str, Row]
    runs: pd.DataFrame

    def __getitem__(self, name: str) -> Row:
        return self.rows[name]

    def variation(self, *names: str) -> float:
        return mean_run_variation(pd.DataFrame([self.rows[name] for name in names]))

    def evaluations_per_epoch(self, name: str) -> float:
        """Mean over the kept runs."""
        submission, benchmark = SUBMISSIONS[name]
        own = self.runs["kept_by_status"] & (self.runs["submission"] == submission)
        kept = self.runs[own & (self.runs["benchmark"] == benchmark)]
        return float((kept["evaluations"] / kept["epochs"]).mean())

    def evaluation_rate(self, name: str) -> float:
        return float(self[name]["evaluation_rate_per_unit_samples_per_s"])

    def over_training(self, name: str) -> float:
        """Return evaluation over training throughput."""
        return self.evaluation_rate(name) / float(self[name]["train_rate_per_unit_samples_per_s"])

    def ratio(self, above: str, below: str, column: str) -> float:
        return float(self[above][column] / self[below][column])


def mean_run_variation(results: pd.DataFrame) -> float:
    """Return the run-to-run variation: std / mean of the time to solution, averaged over submissions."""
    return float(results["run_variation_ratio"].mean(skipna=False))


def text_numbers(runs: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers that the paper's text derives from the first round.

    Parameters
    ----------
    runs, results
        Run table and result table of round v0.7; rows of other submissions are left out.

    Returns
    -------
    DataFrame
        ``TEXT_COLUMNS``; NaN with a reason where a submission is missing.
    """
    by_key = {(row["submission"], row["benchmark"]): row for row in results.to_dict("records")}
    paper = _Paper({name: by_key[key] for name, key in SUBMISSIONS.items() if key in by_key}, runs)
    return pd.DataFrame([_evaluate(paper, *number) for number in _TEXT], columns=TEXT_COLUMNS)


def _evaluate(paper: _Paper, statement: str, quantity: str, compute: Callable[[_Paper], float]) -> tuple[Any, ...]:
    try:
        return statement, quantity, compute(paper), ""
    except KeyError as missing:
        return statement, quantity, NAN, f"no result of {missing.args[0]}"


def _larger_batches(paper: _Paper) -> float:
    """Epochs at batch 256 over the mean of the three systems at batch 64."""
    small = [paper[name]["epochs"] for name in ("Cori-GPU-64", "HAL-64", "Frontera-RTX-64")]
    return float(paper["Piz-Daint-128"]["epochs"] / (math.fsum(small) / len(small)))


def _faster_than_epochs(paper: _Paper) -> float:
    """By what share Piz-Daint-256 beats the time that its epochs at twice the speed would take."""
    epochs = paper.ratio("Piz-Daint-256", "Piz-Daint-128", "epochs")
    return 1 - paper.ratio("Piz-Daint-256", "Piz-Daint-128", "run_s") / (epochs / 2)


def _staging_speed(paper: _Paper) -> float:
    """DeepCAM's staging time over CosmoFlow's; the geometric mean at 512 and 2048 units is used for 1024 units."""
    cosmoflow_s = math.sqrt(paper["ABCI-512"]["staging_s"] * paper["*ABCI-2048"]["staging_s"])
    return float(paper["DeepCAM ABCI-1024"]["staging_s"] / cosmoflow_s)


def _from_batch_4096(paper: _Paper) -> float:
    """*Fugaku-16384 against Fugaku-512 scaled ideally to the same batch, at one sample per unit."""
    base, result = paper["Fugaku-512"], paper["*Fugaku-16384"]
    return speedup(base, result, "train") / float(result["global_batch_samples"] / base["global_batch_samples"])


_OTHER_COSMOFLOW = tuple(
    name
    for name, (_, benchmark) in SUBMISSIONS.items()
    if benchmark == "cosmoflow" and name not in ("*ABCI-2048", "*Fugaku-16384")
)
_DEEPCAM = tuple(name for name, (_, benchmark) in SUBMISSIONS.items() if benchmark == "deepcam")
_WEAK_PAIRS = (("ABCI-512", "*ABCI-2048"), ("Cori-KNL-512", "*Cori-KNL-1024"), ("Piz-Daint-128", "Piz-Daint-256"))


def _weak_scaling(base: str, result: str, quantity: str) -> tuple[str, str, Callable[[_Paper], float]]:
    name = {"train": "weak_scaling_train", "evaluation": "weak_scaling_eval"}[quantity]
    return f"{base} to {result}", name, lambda paper: efficiency(paper[base], paper[result], quantity)


_TEXT: tuple[tuple[str, str, Callable[[_Paper], float]], ...] = (
    (
        "*ABCI-2048 and *Fugaku-16384",
        "run_to_run_variation",
        lambda paper: paper.variation("*ABCI-2048", "*Fugaku-16384"),
    ),
    ("all other CosmoFlow", "run_to_run_variation", lambda paper: paper.variation(*_OTHER_COSMOFLOW)),
    ("DeepCAM", "run_to_run_variation", lambda paper: paper.variation(*_DEEPCAM)),
    *(_weak_scaling(base, result, quantity) for base, result in _WEAK_PAIRS for quantity in ("train", "evaluation")),
    (
        "Fugaku-512 to Fugaku-8192",
        "train_speedup",
        lambda paper: speedup(paper["Fugaku-512"], paper["Fugaku-8192"], "train"),
    ),
    ("Fugaku-512 scaled to batch 4096 to *Fugaku-16384", "train_speedup", _from_batch_4096),
    (
        "Fugaku CosmoFlow",
        "open_over_closed",
        lambda paper: paper.ratio("Fugaku-8192", "*Fugaku-16384", "run_by_target_s"),
    ),
    ("ABCI CosmoFlow", "open_over_closed", lambda paper: paper.ratio("ABCI-512", "*ABCI-2048", "run_by_target_s")),
    (
        "ABCI DeepCAM",
        "open_over_closed",
        lambda paper: paper.ratio("DeepCAM ABCI-1024", "DeepCAM *ABCI-1024", "run_by_target_s"),
    ),
    *(
        (
            f"DeepCAM Cori-GPU-64 over {name}",
            "evals_per_epoch_ratio",
            lambda paper, name=name: (
                paper.evaluations_per_epoch("DeepCAM Cori-GPU-64") / paper.evaluations_per_epoch(f"DeepCAM {name}")
            ),
        )
        for name in ("ABCI-1024", "*ABCI-1024")
    ),
    ("ABCI CosmoFlow (at 1024) over DeepCAM", "staging_speed_ratio", _staging_speed),
    ("batch 64 to 256 (three systems, Piz-Daint-128)", "epochs_ratio", _larger_batches),
    (
        "batch 256 to 512 (Piz Daint)",
        "epochs_ratio",
        lambda paper: paper.ratio("Piz-Daint-256", "Piz-Daint-128", "epochs"),
    ),
    ("Piz-Daint-128 to Piz-Daint-256", "faster_than_epoch_scaling", _faster_than_epochs),
    ("DeepCAM ABCI-1024", "eval_over_train_throughput", lambda paper: paper.over_training("DeepCAM ABCI-1024")),
    ("CosmoFlow ABCI-512", "eval_over_train_throughput", lambda paper: paper.over_training("ABCI-512")),
    *(
        (
            f"{statement}, per unit",
            "cosmoflow_over_deepcam_eval_throughput",
            lambda paper, above=above, below=below: paper.evaluation_rate(above) / paper.evaluation_rate(below),
        )
        for statement, above, below in (
            ("Cori-GPU-64", "Cori-GPU-64", "DeepCAM Cori-GPU-64"),
            ("ABCI closed", "ABCI-512", "DeepCAM ABCI-1024"),
            ("ABCI open", "*ABCI-2048", "DeepCAM *ABCI-1024"),
        )
    ),
)
