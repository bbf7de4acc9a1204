"""What if: the answers to a study's questions, each with its starting point and its assumptions."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hpcai.catalogue.tables import columns_of
from hpcai.config.prediction import Prediction
from hpcai.predict.what_if.accuracy import COMPRESSION, FEWER, MORE, PRECISION, ModelErrors
from hpcai.predict.what_if.hardware import Exchange, assumed_exchange
from hpcai.predict.what_if.intervals import ErrorInterval
from hpcai.predict.what_if.measured import MeasuredStudy, Point
from hpcai.predict.what_if.outcome import complete_row
from hpcai.predict.what_if.published_epochs import PublishedEpochs
from hpcai.predict.what_if.step_model import Setting, StepModel, at_ranks

Question = Literal["scale", "link", "precision", "compression"]
PREDICTION_COLUMNS = columns_of("predictions")
NO_LINK_COMPARED = "no interval: no point was measured over another link"
UNDETERMINED = "one measured number of ranks shows no regime: the global batch is assumed to stay"


@dataclass(frozen=True)
class Case:
    """One thing to predict.

    Attributes
    ----------
    start
        Measured point that calibrates the model.
    setting
        The requested setting.
    exchange
        Links of the exchange.
    model
        Model of the step.
    interval
        Interval of this model's predictions of this kind.
    regime
        ``strong`` or ``weak``: the scaling of the batch.
    assumed
        Assumptions in addition to those of all predictions.
    """

    question: Question
    start: Point
    setting: Setting
    exchange: Exchange
    model: StepModel
    interval: ErrorInterval
    regime: str
    assumed: tuple[str, ...] = ()


def answer_questions(
    study: MeasuredStudy,
    asked: Prediction,
    errors: ModelErrors,
    curves: Mapping[str, PublishedEpochs],
) -> list[dict[str, Any]]:
    """Return a row of `PREDICTION_COLUMNS` for each question and answer.

    Parameters
    ----------
    study
        Measured points and models.
    asked
        Ranks (except measured ones), links (for the largest measured scale), precisions and compressions (for each
        measured scale).
    errors
        Errors of the models on measured points, which choose the model and define its interval.
    curves
        Epochs over batch, by benchmark.
    """
    rows = []
    for points in study.series():
        regime, words = _regime(points)
        for case in _cases(study, points, asked, errors):
            assumed = (*case.assumed, *([words] if words and case.question == "scale" else []))
            rows.append(complete_row(study, replace(case, regime=regime, assumed=assumed), points, curves))
    return rows


def _cases(study: MeasuredStudy, points: Sequence[Point], asked: Prediction, errors: ModelErrors) -> Iterator[Case]:
    yield from _scales(study, points, asked, errors)
    yield from _links(study, points[-1], asked, errors)
    for start in points:
        exchange = study.exchange(start.setting.nodes, start.engine)
        for precision in asked.precisions:
            if precision != start.setting.precision:
                setting = replace(start.setting, precision=precision)
                best = errors.choose(PRECISION, study.able_models(start, setting))
                yield Case("precision", start, setting, exchange, *best, "", (FASTER_ROOFS,))
        for compression in asked.compressions:
            if compression != start.setting.compression and start.setting.ranks > 1:
                setting = replace(start.setting, compression=compression)
                best = errors.choose(COMPRESSION, study.able_models(start, setting))
                yield Case("compression", start, setting, exchange, *best, "", (FREE_CONVERSION,))


FASTER_ROOFS = "all of computing changes as the measured roofs do; gradients and weights stay float32"
FREE_CONVERSION = "converting messages takes no time"


def _scales(study: MeasuredStudy, points: Sequence[Point], asked: Prediction, errors: ModelErrors) -> Iterator[Case]:
    """Yield the unmeasured numbers of ranks, each from the measured one that is nearest in octaves."""
    regime, _ = _regime(points)
    measured = {point.setting.ranks for point in points}
    for ranks in asked.ranks:
        if ranks in measured:
            continue
        start = min(points, key=lambda one: (abs(math.log2(ranks / one.setting.ranks)), -one.setting.ranks))
        setting = at_ranks(start.setting, ranks, study.machine.ranks_per_node, regime)
        best = errors.choose(MORE if ranks > start.setting.ranks else FEWER, study.able_models(start, setting))
        yield Case("scale", start, setting, study.exchange(setting.nodes, start.engine), *best, regime)


def _links(study: MeasuredStudy, start: Point, asked: Prediction, errors: ModelErrors) -> Iterator[Case]:
    """Yield the largest measured scale over each assumed link."""
    measured = study.exchange(start.setting.nodes, start.engine)
    model, _ = errors.choose(MORE, study.able_models(start, start.setting))
    interval = ErrorInterval(math.nan, math.nan, 0, NO_LINK_COMPARED)
    for link in asked.links:
        yield Case("link", start, start.setting, assumed_exchange(link, measured), model, interval, "")


def _regime(points: Sequence[Point]) -> tuple[str, str]:
    """Return which batch the measured points keep constant, global or per rank, and the assumptions needed."""
    settings = [point.setting for point in points]
    if len({setting.ranks for setting in settings}) < 2:
        return "strong", UNDETERMINED
    if len({setting.global_batch for setting in settings}) == 1:
        return "strong", ""
    if len({setting.global_batch / setting.ranks for setting in settings}) == 1:
        return "weak", ""
    return "strong", "the measured scales keep neither the global batch nor that of a rank: the former is assumed"
