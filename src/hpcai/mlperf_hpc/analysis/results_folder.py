"""Write imported rounds as a results folder like that of an own study: its tables and its description."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from hpcai.core.errors import ConfigError
from hpcai.core.files import file_sha256, write_atomically
from hpcai.core.messages import Message, at
from hpcai.core.sealed import sealed_json
from hpcai.mlperf_hpc.analysis.editions import evaluated_by_steps
from hpcai.mlperf_hpc.analysis.energy import energy_table, read_energies
from hpcai.mlperf_hpc.analysis.repeats import mark_repeats
from hpcai.mlperf_hpc.analysis.round_tables import source_tables
from hpcai.mlperf_hpc.analysis.score_rows import mark_dropped, ranked_times, result_scores, trial_scores
from hpcai.mlperf_hpc.analysis.study_names import scale_of
from hpcai.mlperf_hpc.analysis.study_runs import epoch_frame, run_frame, study_epochs, study_run
from hpcai.mlperf_hpc.analysis.tables import result_table
from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound, read_checked_round
from hpcai.mlperf_hpc.compliance.choose import NO_RULES
from hpcai.mlperf_hpc.rounds.model import Repair, Round
from hpcai.mlperf_hpc.rounds.tables import REPAIR_COLUMNS

A_STUDY = Message("results_folder.a_study", "holds the runs of a study; name a separate folder for imported results")

Tables = dict[str, pd.DataFrame]
Writer = Callable[[Mapping[str, pd.DataFrame], Path], None]
"""Such as :func:`hpcai.metrics.run_tables.write_tables`."""


def import_tables(rounds: Sequence[CheckedRound]) -> Tables:
    """Return the tables of imported rounds.

    Parameters
    ----------
    rounds
        Rounds with the verdicts of their logs, no two of one name.

    Returns
    -------
    dict
        By name. ``runs``, ``epochs``, ``run_scores`` and ``scores`` have the columns of own studies and hold the runs
        of strong scaling; each submission of each round is a variant. Runs of unknown scale appear in ``mlperf_runs``
        only. ``mlperf_runs``, ``mlperf_results``, ``mlperf_weak``, ``mlperf_energy``, ``mlperf_systems``,
        ``mlperf_verdicts`` and ``mlperf_repairs`` are the input for the analysis of rounds.
    """
    repairs: list[Repair] = []
    energies = read_energies([checked.round for checked in rounds], repairs)
    sources = source_tables(rounds, energies)
    logged = sources["mlperf_runs"]
    results = result_table(logged)
    runs, epochs = _study_tables(rounds, _name_variants(logged, results))
    ranked = ranked_times(
        _name_variants(results, results), {checked.round.name for checked in rounds if not has_rules(checked)}
    )
    runs["dropped"] = mark_dropped(runs, ranked)
    trials = trial_scores(runs, {key: energy.energy_j for key, energy in energies.items()})
    of_power = [("power logs", *_cells(repair)) for repair in repairs]
    found = [sources["mlperf_repairs"], pd.DataFrame(of_power, columns=list(REPAIR_COLUMNS))]
    return {
        **sources,
        "runs": runs,
        "epochs": epochs,
        "run_scores": trials,
        "scores": result_scores(ranked, runs, trials),
        "mlperf_results": results,
        "mlperf_weak": mark_repeats(sources["mlperf_weak"], logged),
        "mlperf_energy": energy_table(logged, energies),
        "mlperf_repairs": pd.concat(found, ignore_index=True).astype("str"),
    }


def _name_variants(table: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the variant and the edition of each submission.

    The variant is the submission's name, prefixed by the round if there are several; `by_steps` is equal for all its
    runs.
    """
    several = len(set(table["origin"])) > 1
    key = ["origin", "submission", "benchmark"]
    stepped = set(results.loc[evaluated_by_steps(results), key].itertuples(index=False, name=None))
    by_steps = [one in stepped for one in table[key].itertuples(index=False, name=None)]
    names = table["origin"] + "/" + table["submission"] if several else table["submission"]
    return table.assign(variant=names, by_steps=by_steps)


def has_rules(checked: CheckedRound) -> bool:
    """Return whether the package has rules made for a round; it has none for v0.7."""
    return not checked.choice.reason.endswith(NO_RULES)


def _cells(repair: Repair) -> tuple[str, ...]:
    return repair.source, repair.place, repair.kind, repair.found, repair.done


def _study_tables(rounds: Sequence[CheckedRound], logged: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables ``runs`` and ``epochs``."""
    strong = logged[logged["scaling"] == "strong"].to_dict("records")
    rows = {(row["origin"], row["source"]): row for row in strong if scale_of(row)}
    names: set[str] = set()
    runs: list[dict[str, Any]] = []
    epochs: list[dict[str, Any]] = []
    for checked in rounds:
        for run in (run for submission in checked.round.submissions for run in submission.runs):
            row = rows.get((checked.round.name, run.source))
            if row is not None:
                own = study_run(row, run, checked.verdicts.get(run.source) if has_rules(checked) else None)
                if own["run_id"] in names:  # result_1 and result_01 of one folder
                    own["run_id"] += f"_{PurePosixPath(run.source).stem}"
                names.add(own["run_id"])
                runs.append(own)
                epochs += study_epochs(own, run)
    return run_frame(runs), epoch_frame(epochs)


def import_facts(rounds: Sequence[CheckedRound]) -> dict[str, Any]:
    """Return the description of an imported folder, as ``study.json`` of an own study holds it.

    ``imported`` lists, per round, its source with the SHA-256 of the content, and the rule set with the reason for its
    choice.
    """
    return {
        "name": ", ".join(checked.round.name for checked in rounds),
        "title": f"Published results of MLPerf HPC: {', '.join(checked.round.name for checked in rounds)}",
        "imported": [
            {
                "name": checked.round.name,
                "source": checked.round.source,
                "sha256": digest_source(checked.round),
                "logs": len(checked.verdicts),
                "rule_set": checked.choice.rule_set,
                "rule_set_reason": checked.choice.reason,
            }
            for checked in rounds
        ],
    }


def digest_source(imported: Round) -> str:
    """Return the SHA-256 of an archive or a log, or of the list of names and SHA-256 of all logs and system files."""
    source = Path(imported.source)
    if source.is_file():
        return file_sha256(source)
    submissions = imported.submissions
    logs = {run.source for submission in submissions for run in (*submission.runs, *submission.pruned)}
    names = sorted(logs | {system.source for system in imported.systems})
    lines = [f"{imported.sha256[name]}  {name}\n" for name in names]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def write_import(rounds: Sequence[CheckedRound], folder: Path, write_tables: Writer) -> Tables:
    """Write imported rounds as a results folder, usable like a study's own; return the tables.

    Parameters
    ----------
    rounds
        Rounds with the verdicts of their logs.
    folder
        Receives ``tables/NAME.{csv,parquet}`` and ``study.json``; created if missing.
    write_tables
        Writes tables by name into a folder (:func:`hpcai.metrics.run_tables.write_tables`).

    Raises
    ------
    ConfigError
        If the folder holds results of another kind, or cannot be written.
    """
    if (folder / "runs").exists():
        raise ConfigError(at(str(folder), A_STUDY()))
    tables = import_tables(rounds)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_tables(tables, folder / "tables")
        write_atomically(folder / "study.json", sealed_json(import_facts(rounds)))
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror}; name a folder that can be written") from error
    return tables


def read_rounds(sources: Sequence[Path], *, name: str | None = None, rule_set: str | None = None) -> list[CheckedRound]:
    """Read rounds and check their logs.

    Parameters
    ----------
    sources
        Repositories, parts of them, or archives.
    name
        Name of the round, for a single source; defaults to the source's own name.
    rule_set
        Rule set for all logs; defaults to the one that each source's own text indicates.

    Raises
    ------
    ConfigError
        If a name is given for several sources, or two rounds share a name.
    ParseError
        If a source cannot be read.
    """
    if name and len(sources) > 1:
        raise ConfigError(f"--name: found {len(sources)} sources, one name is for one; import them one by one")
    rounds = [read_checked_round(source, name=name, rule_set=rule_set) for source in sources]
    names = [checked.round.name for checked in rounds]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"found several sources of the name {', '.join(twice)}; import them one by one with --name")
    return rounds
