"""Commands for single runs: measure and profile them, read tool output, and repair published runs."""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperOption

from hpcai.cli.options import Command, argument, choice, option, takes
from hpcai.core.errors import HpcaiError, ResultsError

if TYPE_CHECKING:
    from hpcai.records.run import RunRecord

app = typer.Typer(rich_markup_mode=None, add_completion=False)
Plan = Annotated[Path, option("FILE", "plan of the run")]
Manifest = Annotated[Path, option("FILE", "manifest of the dataset")]
# Rules always pass this option; it has no value if nothing is packed.
Pack = Annotated[str | None, option("[FILE]", "manifest of the packed dataset, if it is staged")]
Launcher = Annotated[str, option("NAME", "launcher that starts the ranks")]
Folder = Annotated[Path, option("DIR", "folder of the run, for its record")]
Log = Annotated[Path | None, option("FILE", "file for messages")]


class Launching(Command):
    """A command whose help lists the available launchers, which take a while to find."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - Typer does not export the types
        """Write the list of options."""
        from hpcai.launchers.registry import LAUNCHERS

        for param in self.params:
            if isinstance(param, TyperOption) and param.name == "launcher":
                param.help = "; ".join(f"{name}: {launcher.summary}" for name, launcher in LAUNCHERS.items())
        super().format_options(ctx, formatter)


@app.command(cls=Launching)
def measure(
    plan: Plan, manifest: Manifest, launcher: Launcher, folder: Folder, pack: Pack = None, log: Log = None
) -> None:
    """Measure one run and publish its record."""
    with logged_to(log):
        from hpcai.measure.inputs import Inputs
        from hpcai.measure.supervise import measure

        measure(Inputs((plan,), manifest, _given(pack)), folder, launcher)


@app.command(cls=Launching)
def capture(
    plan: Plan, manifest: Manifest, launcher: Launcher, folder: Folder, pack: Pack = None, log: Log = None
) -> None:
    """Make one profiled run, or report why it is not possible."""
    with logged_to(log):
        from hpcai.measure.capture import capture
        from hpcai.measure.inputs import Inputs

        capture(Inputs((plan,), manifest, _given(pack)), folder, launcher)


@app.command("measure-weak", cls=Launching)
def measure_weak(
    plans: Annotated[list[Path], option("PLAN...", "plans of all instances")],
    manifest: Manifest,
    launcher: Launcher,
    folder: Annotated[Path, option("DIR", "folder of the group, for its instances")],
    pack: Pack = None,
    log: Log = None,
) -> None:
    """Measure a weak-scaling group: several instances of a run at the same time."""
    with logged_to(log):
        from hpcai.measure.inputs import Inputs
        from hpcai.measure.weak import measure_weak

        measure_weak(Inputs(tuple(plans), manifest, _given(pack)), folder, launcher)


@app.command(cls=Command)
def reproducibility(
    places: Annotated[list[Path], argument("RESULTS", "results folders, folders of runs, or files record.json")],
) -> None:
    """Show how well others could repeat each run, 0 to 100, and what would raise it.

    Repeats of a point count if they are among the given runs of its study and machine. Measured power counts if the
    results folder has the scores of the runs. Exit status: 0, or 1 for bad input.
    """
    from hpcai.measure.publish import timed_records
    from hpcai.metrics.reproducibility import runs_of_studies
    from hpcai.metrics.run_tables import read_records

    paths = [path for place in places for path in timed_records(place)]
    studies = runs_of_studies(zip(paths, read_records(paths), strict=True))
    for (study, machine), runs in studies.items():
        if len(studies) > 1:
            print(f"study {study} on {machine}:")
        _show_reproducibility(runs)


def _show_reproducibility(runs: "Mapping[Path, RunRecord]") -> None:
    """Print the scores of the points of a study."""
    import pandas as pd

    from hpcai.catalogue.points import label_of
    from hpcai.core.table_files import read_parquet
    from hpcai.metrics.reproducibility import NO_RUN_SCORES, RUN_SCORES, lacks_power, reproducibility_table

    folders = list(dict.fromkeys(map(_results_of, runs)))
    with_scores = [folder for folder in folders if (folder / RUN_SCORES).is_file()]
    scores = [read_parquet(folder / RUN_SCORES) for folder in with_scores]
    table = reproducibility_table(runs.values(), pd.concat(scores) if scores else None)
    for row in table.to_dict("records"):
        said = f"{row['n']} run{'s' if row['n'] > 1 else ''}"
        print(f"{row['reproducibility_score']:3.0f} of 100  {label_of(row)}  ({said})")
        for advice in filter(None, row["advice"].split("; ")):
            print(f"    to raise it: {advice}")
    without = [str(folder) for folder in folders if folder not in with_scores]
    if without and lacks_power(table):
        print(NO_RUN_SCORES(folders=", ".join(without), file=RUN_SCORES))


def _results_of(record: Path) -> Path:
    """Return the results folder, or report document, of a run; the run's own folder if it lies elsewhere."""
    above = record.resolve().parents
    return next((folder.parent for folder in above if folder.name in ("runs", "logs")), above[0])


def _given(pack: str | None) -> Path | None:
    return Path(pack) if pack else None


@contextmanager
def logged_to(path: Path | None) -> Iterator[None]:
    """Copy messages, and the error that ends the command, to a log file if one is named.

    Raises
    ------
    ResultsError
        If the file cannot be written.
    """
    if path is None:
        yield
        return
    # Messages lost on a full disk are not errors by themselves.
    logging.raiseExceptions = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        logging.basicConfig(filename=path, filemode="w", level=logging.INFO, format="%(asctime)s %(message)s")
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written ({error.strerror}); make room, or repair its folder") from error
    try:
        yield
    except (HpcaiError, OSError) as error:
        if not isinstance(error, BrokenPipeError):
            logging.getLogger(__name__).critical("%s", error, exc_info=isinstance(error, OSError))
        raise


def _list_readers(asked: bool) -> None:
    if asked:
        from hpcai.parsers.registry import list_readers

        print(list_readers())
        raise typer.Exit


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Options of `hpcai read`."""

    file: Annotated[list[Path], argument("FILE", "one file; for Darshan and Horovod several, or a folder")]
    data_root: Annotated[str | None, option("DIR", "Darshan: count only files below this folder as data")] = None
    devices: Annotated[int | None, option("N", "nvidia-smi: number of GPUs in a query without index or uuid")] = None
    unit: Annotated[Literal["W", "mW", "kW"] | None, choice("power table: unit of columns without one")] = None
    tool: Annotated[str | None, option("NAME", "name of the reader, such as nccl-tests (default: all are tried)")] = (
        None
    )
    list_all: Annotated[
        bool, typer.Option("--list", callback=_list_readers, is_eager=True, help="list the readers and exit")
    ] = False
    output: Annotated[Path | None, option("FILE", "write the table to a .csv or .parquet file instead")] = None


@app.command(cls=Command)
@takes(Reading)
def read(asked: Reading) -> None:
    """Print the table from a profiler's, benchmark's or power meter's output as CSV."""
    from hpcai.core.files import write_asked, written_where_asked
    from hpcai.core.table_files import write_parquet
    from hpcai.parsers.registry import read_as_asked

    options = {"devices": asked.devices, "unit": asked.unit}
    reading = read_as_asked(asked.file, asked.tool, asked.data_root, options)
    whole = f"{reading.complete_records} of {reading.seen_records} records"
    print(f"{asked.file[0]}: {reading.tool}, {whole}", *reading.reasons, sep="\n  ", file=sys.stderr)
    if asked.output is None:
        reading.table.to_csv(sys.stdout, index=False)
    elif asked.output.suffix == ".parquet":
        with written_where_asked(asked.output):
            write_parquet(reading.table, asked.output)
    else:
        write_asked(asked.output, reading.table.to_csv(index=False))


@app.command(cls=Command)
def retry(runs: Annotated[Path, argument("RUNS", "default: all runs and profiles")] = Path("results")) -> None:
    """Let failed runs, and profiles without a tool, be repeated."""
    from hpcai.measure.publish import forget_breakdowns

    folders = forget_breakdowns(runs)
    for folder in folders:
        print(f"{folder}: will be measured again")
    if folders:
        print(f"{len(folders)} runs to repeat; start the workflow again (`hpcai run`)")
    else:
        print(f"{runs}: nothing to repeat, no run failed and no profile lacks its tool")


@app.command(cls=Command)
def discard(
    folder: Annotated[
        Path, argument("FOLDER", "folder of a run, or a parent folder of several, such as results/profiles/io")
    ],
    reason: Annotated[str, option("WORDS", "reason, kept with the discarded files")],
) -> None:
    """Set runs aside (moved, not deleted), so that they are measured again."""
    from hpcai.measure.publish import discard_all

    for moved in discard_all(folder, reason):
        print(f"moved to {moved}")


@app.command(cls=Command)
def restore(folder: Annotated[Path, argument("FOLDER", "of the run")]) -> None:
    """Restore the record of a published run from its intact copy."""
    from hpcai.measure.publish import restore

    print(f"{folder}: both copies of its record are now as {restore(folder)}")
