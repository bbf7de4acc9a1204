"""Print and write the resources that each job of a campaign requested and used."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.errors import ConfigError, RecordError

if TYPE_CHECKING:
    import pandas as pd

    from hpcai.parsers.reading import Reading

AUTO = "auto"


def report_efficiency(results: Path, csv: Path | None = None, sacct: str | None = None) -> None:
    """Print the report, and write its rows if requested.

    Parameters
    ----------
    results
        Results folder.
    csv
        File for all runs; other jobs go to a second file next to it.
    sacct
        Output of ``sacct``, or :data:`AUTO` to run it: adds the jobs that are not runs.

    Raises
    ------
    ConfigError
        If there is nothing to report on, or accounting was requested but does not answer.
    RecordError
        If a record is damaged.
    """
    from hpcai.campaign.efficiency_text import say_efficiency
    from hpcai.compare.output import write_frame

    table = _read(results)
    reading = _read_jobs(sacct, table, results) if sacct else None
    jobs = None
    if reading is not None:
        jobs = reading.table[~reading.table["job"].isin(set(table["slurm_job"]))].drop(columns="work_folder")
        print(*(f"sacct: {reason}" for reason in reading.reasons), sep="\n", end="\n" if reading.reasons else "")
    if csv:
        write_frame(table, csv)
        if jobs is not None:
            write_frame(jobs, csv.with_name(f"{csv.stem}_jobs{csv.suffix}"))
    print(say_efficiency(table, jobs))


def _read(results: Path) -> "pd.DataFrame":
    """Return the rows of all runs of a results folder, including those without a record."""
    from hpcai.campaign.efficiency import as_table, efficiency_table, unfinished_row
    from hpcai.records.files import RECORD

    folders = _run_folders(results)
    if not folders:
        raise ConfigError(
            f"{results}: found no run, expected a results folder; specify one: `hpcai efficiency RESULTS`"
        )
    recorded = [folder / RECORD for folder in folders if (folder / RECORD).exists()]
    rows = [row for folder in folders if not (folder / RECORD).exists() and (row := unfinished_row(folder))]
    return as_table([*efficiency_table(recorded).to_dict("records"), *rows])


def _run_folders(results: Path) -> list[Path]:
    """Return the folders of runs; for a weak-scaling group, those of its instances."""
    from hpcai.campaign.run_folders import present_folders
    from hpcai.measure.publish import INSTANCE

    folders = []
    for name in present_folders(results):
        folder = results / name
        group = name.startswith("weak/")
        folders += [own for own in sorted(folder.iterdir()) if INSTANCE.fullmatch(own.name)] if group else [folder]
    return folders


def _read_jobs(source: str, table: "pd.DataFrame", results: Path) -> "Reading":
    from hpcai.slurm.sacct import ask_jobs, read_jobs

    if source != AUTO:
        return read_jobs(Path(source))
    starts = [*filter(None, table["started_utc"]), *_noted_starts(results)]
    if not starts:
        raise ConfigError(f"--sacct auto: {results} has no run with a start time; specify a file with sacct output")
    return ask_jobs(min(starts), results.resolve().parent)


def _noted_starts(results: Path) -> list[str]:
    """Return when the workflow was started: data, packing and acceptance may come days before the first run."""
    from hpcai.campaign.controller_note import read_note

    try:
        note = read_note(results)
    except RecordError:
        return []
    return [note.started_utc, *(start.started_utc for start in note.earlier)] if note else []
