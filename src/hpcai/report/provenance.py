"""Origin of the numbers: runs with problems, raw files as a tree, and commands to repeat the measurements."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pandas as pd

from hpcai.core.limits import MOST_FILES
from hpcai.report.cells import FILE
from hpcai.report.material import Link, Material

NOT_GIVEN = "not given"
FOLDERS = (
    ("runs", "timed runs: record.json, plan.json and raw/ (mllog.txt, output.log, steps.csv, epochs.jsonl, resources)"),
    ("profiles", "profiled runs, never used as timed runs: capture.json and raw/"),
    ("characterise", "measured ceilings of the machine, and counted work"),
    ("predict", "measured once per machine for predictions: kernels, reference steps, HPL and its routines"),
    ("tables", "all tables as Parquet and CSV"),
    ("figures", "all figures as SVG; interactive charts also as Vega-Lite JSON"),
    ("hpc_ai500", "the HPC AI500 V2.0 report documents, each a folder to submit"),
)
"""Folders next to the page, and their contents."""


@dataclass(frozen=True)
class Folder:
    """One folder of raw files: its name, contents and link, files by subfolder, and the number of files left out."""

    name: str
    words: str
    link: Link | None
    groups: tuple[tuple[str, tuple[Link, ...]], ...]
    left_out: int = 0


def make_failures(material: Material) -> pd.DataFrame:
    """Return every run that did not converge or needed a second attempt, with its reason."""
    summary = material.summary or {}
    rows = [
        {
            "run_id": run["run_id"],
            "outcome": run["outcome"],
            "reason": run["reason"] or NOT_GIVEN,
            "earlier": "; ".join(run["earlier"]),
            "record_path": run["record_path"],
        }
        for run in summary.get("failures", [])
    ]
    return pd.DataFrame(rows, columns=["run_id", "outcome", "reason", "earlier", "record_path"])


def make_runs(material: Material) -> pd.DataFrame:
    """Return the table of runs, those with problems first, including runs without a recorded reason."""
    runs = material.table("runs")
    if runs.empty:
        return runs
    missing = runs["outcome"].ne("converged") & runs["reason"].fillna("").eq("")
    said = runs.assign(reason=runs["reason"].mask(missing, NOT_GIVEN))
    return said.sort_values("outcome", key=lambda values: values.eq("converged"), kind="stable")


def make_folders(material: Material) -> tuple[Folder, ...]:
    """Return the existing folders, with the first ``MOST_FILES`` of the raw files named in tables."""
    named = {"runs": _records(material), "profiles": _sources(material, "profiles")}
    named["characterise"] = _sources(material, "characterise")
    found = []
    for name, words in FOLDERS:
        link = material.link_file(name)
        if link:
            paths = named.get(name, [])
            groups = _group(material, paths[:MOST_FILES])
            found.append(Folder(name, words, link, groups, len(paths[MOST_FILES:])))
    return tuple(found)


def say_commands(study: Mapping[str, Any] | None, commits: Sequence[str]) -> list[str]:
    """Return the commands that repeat the study's measurements.

    Parameters
    ----------
    study
        The settings of the study.
    commits
        Commits of the runs.
    """
    if not study:
        return []
    known = [commit for commit in commits if commit != "unknown"]
    checkout = [f"git checkout {shlex.quote(known[0])}"] if len(known) == 1 else []
    return [*checkout, "make env", "snakemake --configfile results/study.json report"]


def _records(material: Material) -> list[str]:
    return list((material.summary or {}).get("records", []))


def _sources(material: Material, folder: str) -> list[str]:
    """Return the files of a folder that any table names as its source."""
    found: dict[str, None] = {}
    for frame in material.tables.values():
        for column in ("source", "raw"):
            if column in frame:
                for text in frame[column].dropna().astype(str).unique():
                    found |= dict.fromkeys(FILE.findall(text))
    return sorted(path for path in found if PurePosixPath(path).parts[1:2] == (folder,))


def _group(material: Material, paths: Sequence[str]) -> tuple[tuple[str, tuple[Link, ...]], ...]:
    """Return links to files, grouped by the folder two levels below the results folder."""
    groups: dict[str, list[Link]] = {}
    for path in paths:
        parts = PurePosixPath(path).parts
        link = material.link_file(path, "/".join(parts[3:]) or parts[-1])
        if link:
            groups.setdefault("/".join(parts[1:3]) if len(parts) > 3 else parts[1], []).append(link)
    return tuple((name, tuple(links)) for name, links in sorted(groups.items()))
