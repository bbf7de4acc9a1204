"""The command ``hpcai predict round``, alias ``hpcai mlperf predict``: times in published and later rounds."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcai.cli.options import Command, argument, count, option, takes
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message

if TYPE_CHECKING:
    from hpcai.mlperf_hpc.analysis.forecast_text import Answer

app = typer.Typer(rich_markup_mode=None, add_completion=False)
MISSING = Message("predict_round.missing", "{option}: found none, expected one{why}")
NEEDS_ROUND = Message(
    "predict_round.needs_round", "{option}: found it without --round, expected both: it is about a round to come"
)
EXCLUDES = Message("predict_round.excludes", "{option}: found it with {other}, expected only one of them")
NO_QUANTITY = Message(
    "predict_round.no_quantity", "{option}: found {found!r}, expected a quantity above 0 such as {example!r}"
)
EPILOGUE = """\
\b
examples:
  A machine at scales without submissions, from the rounds themselves:
    hpcai predict round hpc_results_v1.0 --benchmark NAME --system ORG/SYSTEM --units 1024
  The same machine in a later round, and an accelerator without submissions:
    hpcai predict round hpc_results_v* --benchmark NAME --system ORG/SYSTEM --round v3.0
    hpcai predict round hpc_results_v* --benchmark NAME --accelerator B200 --round 2026-11
  Which machine reaches 10 minutes, with how many units, at what energy:
    hpcai predict round hpc_results_v* --benchmark NAME --round 2026-11 --within "10 min" --unit-power "1 kW"
  How far forecasts of known rounds are off, each from those before it:
    hpcai predict round hpc_results_v* --backtest v2.0 v3.0 --figure backtest.svg
"""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Options of `hpcai predict round`."""

    sources: Annotated[
        list[Path], argument("SOURCE", "result repository, folder or archive, as `hpcai mlperf import` takes it")
    ]
    benchmark: Annotated[str | None, option("NAME", "one of the sources; a wrong name lists them")] = None
    system: Annotated[str | None, option("ORG/SYSTEM", "a submission on the machine: any one of it will do")] = None
    accelerator: Annotated[
        str | None, option("MODEL", "with --round, instead of --system: one without submissions, by published rates")
    ] = None
    units: Annotated[
        int | None,
        option("N", parser=count, words="accelerators, or processors without; by default a table of powers of two"),
    ] = None
    batch: Annotated[
        int | None,
        option("N", parser=count, words="global batch in samples; by default the family's samples per unit"),
    ] = None
    round: Annotated[
        str | None, option("ROUND", "a later round, such as v3.0, or YYYY-MM; sources before it alone are used")
    ] = None
    within: Annotated[
        str | None, option("TIME", 'with --round: fewest units that reach it, such as "10 min"; of all machines')
    ] = None
    unit_power: Annotated[
        str | None, option("POWER", 'with --round: of one unit with its share of the node, such as "700 W"')
    ] = None
    backtest: Annotated[
        list[str] | None, option("ROUND...", "predict these rounds, each from those before it, and print the errors")
    ] = None
    json: Annotated[Path | None, option("FILE", "also write predictions and errors to a file")] = None
    figure: Annotated[Path | None, option("FILE", "also draw the intervals, as SVG; with --round or --backtest")] = None


@takes(Asked)
def predict_round(asked: Asked) -> None:
    """Predict the time to solution of a scale, batch or round without a run.

    Based on the sources themselves or, with --round, for a later round: software ages, and accelerators differ by their
    published rates. All times are modelled, and shown with the error of such predictions on published submissions.
    """
    from hpcai.core.files import write_asked_json

    _check(asked)
    if asked.backtest or asked.round:
        answer = _answer(asked)
        print("\n".join(answer.lines))
        found = answer.plain
        if asked.figure:
            _draw(answer, asked)
    else:
        from hpcai.mlperf_hpc.analysis.prediction_text import Question, print_predictions

        # _check has already refused these if missing.
        question = Question(asked.sources, asked.benchmark or "", asked.system or "", asked.units, asked.batch)
        found = print_predictions(question)
    if asked.json:
        write_asked_json(asked.json, found)


app.command("round", cls=Command, epilog=EPILOGUE)(predict_round)


def _check(asked: Asked) -> None:
    """Refuse missing options, and options that another one excludes."""
    later: dict[str, object] = {
        "--accelerator": asked.accelerator,
        "--within": asked.within,
        "--unit-power": asked.unit_power,
    }
    asking: dict[str, object] = {"--round": asked.round, "--benchmark": asked.benchmark, "--system": asked.system,
              "--units": asked.units, "--batch": asked.batch}  # fmt: skip
    if asked.backtest:
        if given := _given(later | asking):
            raise ConfigError(EXCLUDES(option=given, other="--backtest"))
        return
    if asked.benchmark is None:
        raise ConfigError(MISSING(option="--benchmark", why=" of the sources"))
    if asked.accelerator and asked.system:
        raise ConfigError(EXCLUDES(option="--accelerator", other="--system"))
    if asked.batch is not None and asked.units is None:
        raise ConfigError("--batch: found it without --units, expected both: give the number of units as well")
    if asked.round is None:
        if given := _given(later | {"--figure": asked.figure}):
            raise ConfigError(NEEDS_ROUND(option=given))
        if asked.system is None:
            raise ConfigError(MISSING(option="--system", why=", as ORG/SYSTEM"))


def _given(options: Mapping[str, object]) -> str:
    """Return the first option with a value; blank without one."""
    return next((name for name, value in options.items() if value is not None), "")


def _answer(asked: Asked) -> "Answer":
    from hpcai.mlperf_hpc.analysis.forecast_text import ForecastQuestion, answer_backtest, answer_question

    if asked.backtest:
        return answer_backtest(asked.sources, asked.backtest)
    return answer_question(
        ForecastQuestion(
            sources=asked.sources,
            benchmark=asked.benchmark or "",
            round=asked.round or "",
            system=asked.system,
            accelerator=asked.accelerator,
            units=asked.units,
            batch=asked.batch,
            within_s=_quantity("--within", asked.within, "s", "10 min"),
            unit_power_w=_quantity("--unit-power", asked.unit_power, "W", "700 W"),
        )
    )


def _quantity(name: str, text: str | None, unit: str, example: str) -> float | None:
    from hpcai.core.units import to_si

    if text is None:
        return None
    try:
        found = to_si(text, unit)
    except ValueError as error:
        raise ConfigError(NO_QUANTITY(option=name, found=text, example=example)) from error
    if not 0 < found < float("inf"):
        raise ConfigError(NO_QUANTITY(option=name, found=text, example=example))
    return found


def _draw(answer: "Answer", asked: Asked) -> None:
    from hpcai.core.files import write_asked
    from hpcai.plots.rounds.forecast import plot_forecasts
    from hpcai.plots.theme import to_svg

    title = (
        f"Backtest of {', '.join(asked.backtest)}" if asked.backtest else f"{asked.benchmark} in round {asked.round}"
    )
    write_asked(asked.figure or Path(), to_svg(plot_forecasts(answer.intervals, title)).decode())
