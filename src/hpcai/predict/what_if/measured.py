"""Measurements of a study as the starting point of predictions: points with a step time, and models of their steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from hpcai.config.machine import Machine
from hpcai.metrics.scaling.model_limits import why_not_calibrated
from hpcai.predict.kernels.regressor import KernelRegressor
from hpcai.predict.steps.report import StepTimes
from hpcai.predict.training.layers import LayerList
from hpcai.predict.training.roofline_cost import CostModel
from hpcai.predict.what_if.hardware import PRECISION_BYTES, Exchange, RankRates, measured_exchange, rank_rates
from hpcai.predict.what_if.step_model import (
    TIMED_MODELS,
    Setting,
    StepModel,
    regressor_model,
    roofline_model,
    setting_of,
    timed_model,
)

COST_MODEL: CostModel = "full"
STEP_SOURCE = "results/tables/scales.parquet"


@dataclass(frozen=True)
class StudyTables:
    """Tables of a study, by name.

    Attributes
    ----------
    scales, scores, runs, link_fits, ceilings
        As in ``results/tables``.
    """

    scales: pd.DataFrame
    scores: pd.DataFrame
    runs: pd.DataFrame
    link_fits: pd.DataFrame
    ceilings: pd.DataFrame


@dataclass(frozen=True)
class Point:
    """A measured scale of a benchmark and variant.

    Attributes
    ----------
    row
        Row of the table of scales.
    setting
        Settings of its runs.
    step_s
        Median step time of its runs.
    """

    row: Mapping[Any, Any]
    setting: Setting
    step_s: float

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""
        return str(self.row["benchmark"])

    @property
    def variant(self) -> str:
        """Name of the variant."""
        return str(self.row["variant"])

    @property
    def engine(self) -> str:
        """Engine that exchanged its gradients."""
        return str(self.row["engine"])

    @property
    def scale(self) -> str:
        """Nodes x ranks per node."""
        return str(self.row["scale"])


def measured_points(scales: pd.DataFrame) -> tuple[Point, ...]:
    """Return the rows of table ``scales`` that have a measured step."""
    known = scales[scales["step_time_median_s"] > 0]
    return tuple(Point(row, setting_of(row), float(row["step_time_median_s"])) for row in known.to_dict("records"))


@dataclass(frozen=True)
class MeasuredStudy:
    """Points of a study and models of their steps.

    Attributes
    ----------
    points
        Scales with a step time and a list of layers, in the order of the table.
    overlap
        Whether the gradient exchange overlaps with computing.
    regressors
        Of the kernels of the machine, by kernel; empty: none were measured.
    steps
        Steps that were timed on the machine, whole and in blocks.
    """

    tables: StudyTables
    layers: Mapping[str, LayerList]
    machine: Machine
    points: tuple[Point, ...]
    overlap: bool = False
    regressors: Mapping[str, KernelRegressor] = field(default_factory=dict)
    steps: Sequence[StepTimes] = ()

    @classmethod
    def of(
        cls,
        tables: StudyTables,
        layers: Mapping[str, LayerList],
        machine: Machine,
        *,
        overlap: bool = False,
        regressors: Mapping[str, KernelRegressor] | None = None,
        steps: Sequence[StepTimes] = (),
    ) -> "MeasuredStudy":
        """Extract from the tables the points that a prediction can start from."""
        points = measured_points(tables.scales[tables.scales["benchmark"].isin(list(layers))])
        return cls(tables, layers, machine, points, overlap, regressors or {}, steps)

    def series(self) -> Iterator[tuple[Point, ...]]:
        """Yield the points of each benchmark, variant and engine, fewest ranks first."""
        groups: dict[tuple[str, ...], list[Point]] = {}
        for point in self.points:
            groups.setdefault((point.benchmark, point.variant, point.engine), []).append(point)
        for points in groups.values():
            yield tuple(sorted(points, key=lambda point: point.setting.ranks))

    def exchange(self, nodes: int, engine: str) -> Exchange:
        """Return the measured exchange of an engine inside a node (1) or between nodes (more)."""
        return measured_exchange(self.tables.link_fits, nodes, engine)

    def rates(self, benchmark: str) -> dict[str, RankRates]:
        """Return the measured roofs of a rank by precision."""
        network = self.layers[benchmark]
        return {
            precision: rank_rates(self.tables.ceilings, self.machine.cores_per_rank, precision, network)
            for precision in PRECISION_BYTES
        }

    def model(self, benchmark: str, cost_model: CostModel = COST_MODEL) -> StepModel:
        """Return the roofline model of a benchmark's step."""
        model = roofline_model(self.layers[benchmark], self.rates(benchmark), cost_model)
        return replace(model, overlap=self.overlap)

    def models(self, start: Point, target: Setting) -> dict[str, StepModel]:
        """Return the models that lead from a measured step to another setting, by name.

        The timed step is first, or the sum of its blocks, if it has a time at the batches of both; then the roofline.
        """
        models = [self.model(start.benchmark)]
        if start.setting.precision == target.precision == "fp32":
            network = self.layers[start.benchmark]
            timed = timed_model(network, self.steps)
            if all(_computes(timed, setting) for setting in (start.setting, target)):
                models.insert(0, replace(timed, overlap=self.overlap))
            if self.regressors:
                models.append(replace(regressor_model(network, self.regressors), overlap=self.overlap))
        return {model.words: model for model in models}

    def able_models(self, start: Point, target: Setting) -> dict[str, StepModel]:
        """Return those of :meth:`models` that can be calibrated to the measured step; all of them if none can."""
        models = self.models(start, target)
        able = {name: model for name, model in models.items() if not self.calibrate(model, start)[1]}
        return able or models

    def calibrate(self, model: StepModel, start: Point) -> tuple[float, str]:
        """Return the factor that calibrates a model to a measured step, and the reason if it must not be used."""
        factor, reason = model.calibrate(start.setting, self.exchange(start.setting.nodes, start.engine), start.step_s)
        return factor, reason or why_not_calibrated(factor)

    def sources(self, benchmark: str, exchange: Exchange, model: StepModel) -> str:
        """Return the source files of a model's prediction for a benchmark."""
        files = [STEP_SOURCE, f"results/characterise/layers/{benchmark}.json"]
        measured = "step_blocks" if model.words in TIMED_MODELS.values() else "regressors"
        rates = f"results/predict/{self.machine.name}/{measured}.json"
        if model.words.startswith("roofline"):
            rates = self.rates(benchmark)["fp32"].source
        return ", ".join(dict.fromkeys(filter(None, [*files, *rates.split(", "), exchange.source])))


def _computes(model: StepModel, setting: Setting) -> bool:
    """Return whether a model has a time for the micro-batch of a setting, whose samples no ranks share."""
    return setting.spatial_parts == 1 and not model.compute(setting.micro_batch, setting.precision).reason
