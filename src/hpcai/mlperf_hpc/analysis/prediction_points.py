"""Input of predictions: strong-scaling submissions of one edition of a benchmark, each once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hpcai.core.messages import Message
from hpcai.mlperf_hpc.analysis.editions import BY_STEPS, SAME_SAMPLES_RATIO, name_editions
from hpcai.mlperf_hpc.analysis.publication import publication_order
from hpcai.mlperf_hpc.analysis.targets import QUALITY

STAGED_S = 1.0
"""Some logs have empty staging intervals, up to 0.85 s on a mean (mlperf_logs.md 4); these count as no staging."""
MOST_SUBMISSIONS = 60
"""Largest number of submissions of an edition that curves are fitted to: the cost grows with its cube, and that of
leaving each out once with its fourth power. Published editions are far smaller; a campaign has a variant for each."""
SURPLUS = Message(
    "prediction_points.surplus",
    "not used: one of {found} submissions, of which predictions take {most}, evenly over units and batches",
)
OTHER_TARGET = ", target {:g}"
"""End of an edition's name for results with a target of their own: another one takes other numbers of epochs."""
_NEEDED = ("run_s", "epochs", "epoch_s", "units", "global_batch_samples", "kept")


@dataclass(frozen=True)
class PointSet:
    """The submissions and reference runs of one edition of a benchmark.

    Attributes
    ----------
    benchmark, edition
        The edition names its number of training samples, such as "262144 samples".
    submissions
        The table of results plus ``family``, ``machine``, ``edition``, ``unusable`` (what a fit lacks, or
        blank), ``republished`` (other origins of the same runs) and the parts of the time that
        :func:`with_staging_in_run` adds.
    references
        Reference convergence points that belong to the edition (:mod:`hpcai.mlperf_hpc.analysis.reference_epochs`).
    joined
        Whether organisations that share a member share their machine of a family.
    """

    benchmark: str
    edition: str
    submissions: pd.DataFrame
    references: pd.DataFrame
    joined: bool = False

    @property
    def usable(self) -> pd.DataFrame:
        """Submissions with a time, epochs and a configuration."""
        return self.submissions[self.submissions["unusable"] == ""]

    @property
    def batches_samples(self) -> pd.Series:
        """Global batches of usable submissions and references."""
        columns = [part["global_batch_samples"].astype(float) for part in (self.usable, self.references)]
        return pd.concat([column for column in columns if len(column)])

    def machine_of(self, organisation: str, family: str) -> str:
        """Return an organisation's machine of a family; where joined, in any spelling."""
        if not self.joined:
            return name_machine(organisation, family)
        own = self.submissions[self.submissions["family"] == family]
        members = members_of(organisation)
        shared = [not members.isdisjoint(members_of(org)) for org in own["org"].astype(str)]
        return str(own.loc[shared, "machine"].iloc[0]) if any(shared) else name_machine(organisation, family)

    def without(self, position: int) -> "PointSet":
        """Return the set without one submission and without references.

        Reference runs are removed as well: submitters contributed them, so they may be the submission's own.
        """
        return PointSet(
            self.benchmark,
            self.edition,
            self.submissions.drop(index=self.submissions.index[position]),
            self.references.iloc[:0],
            self.joined,
        )


def point_sets(
    results: pd.DataFrame, systems: pd.DataFrame, references: pd.DataFrame, *, joined: bool = False
) -> Iterator[PointSet]:
    """Split strong-scaling results into editions of benchmarks, which are never joined.

    Parameters
    ----------
    results
        Table ``mlperf_results``.
    systems
        Table ``mlperf_systems`` (:func:`hpcai.mlperf_hpc.analysis.system_families.system_table`).
    references
        Table of :func:`hpcai.mlperf_hpc.analysis.reference_epochs.read_reference_epochs`, or its columns alone.
    joined
        Whether "LBNL" and "HPE+LBNL" share their machine of a family. Joining ties a machine's submissions of several
        rounds together. That only helps a model with software ageing; without one, intervals get too narrow.
    """
    rows = _with_families(results[results["scaling"] == "strong"], systems)
    if joined:
        rows = rows.assign(machine=_join_spellings(rows["org"].astype(str), rows["family"]))
    rows = rows.assign(unusable=[_why_unusable(row) for row in rows.to_dict("records")])
    rows = with_staging_in_run(_each_once(rows))
    for benchmark, part in rows.groupby("benchmark", sort=True):
        own = references[references["benchmark"] == benchmark]
        for edition, members in part.groupby(name_editions(part) + _name_targets(part), sort=True):
            yield PointSet(
                str(benchmark),
                str(edition),
                _thinned(members).assign(edition=edition),
                _fitting(own, members, str(edition)),
                joined,
            )


def with_staging_in_run(results: pd.DataFrame) -> pd.DataFrame:
    """Return ``mlperf_results`` with staging's part of the time to solution, and the rest of that time [s].

    Returns
    -------
    pandas.DataFrame
        With ``staging_in_run_s``: staging on the clock outside epochs, 0 below :data:`STAGED_S`, NaN if staging is
        not logged. ``rest_s`` is the time to solution without staging and epochs. It is never negative, and includes
        unlogged staging and evaluations outside the epochs.
    """
    run_s = results["run_s"].astype(float)
    beside_epochs_s = (run_s - results["compute_s"].astype(float)).clip(lower=0.0)
    logged_s = results["staging_share_ratio"].astype(float) * run_s
    staging_s = logged_s.where(~(logged_s < STAGED_S), 0.0).clip(upper=beside_epochs_s)
    return results.assign(staging_in_run_s=staging_s, rest_s=beside_epochs_s - staging_s.fillna(0.0))


def name_machine(organisation: str, family: str) -> str:
    """Return the name of an organisation's machine of a family, in any spelling ("TACC", "tacc")."""
    return f"{organisation.casefold()} {family}"


def _with_families(results: pd.DataFrame, systems: pd.DataFrame) -> pd.DataFrame:
    known = systems[["origin", "submission", "family"]].drop_duplicates(["origin", "submission"])
    rows = results.drop(columns="family", errors="ignore").merge(known, on=["origin", "submission"], how="left")
    named = rows["family"].fillna("").astype(str)
    family = named.where(named != "", "unknown (" + rows["submission"].astype(str) + ")")
    machine = [name_machine(org, name) for org, name in zip(rows["org"].astype(str), family, strict=True)]
    return rows.assign(family=family, machine=machine)


def _join_spellings(organisations: "pd.Series[str]", families: "pd.Series[str]") -> list[str]:
    """Return the machine of each submission: "LBNL" and "HPE+LBNL" submitted the same machine of a family.

    Organisations that share a member, even through a third one, share their machine of a family, named after all.
    """
    joined: list[tuple[str, frozenset[str]]] = []
    for family, organisation in dict.fromkeys(zip(families, organisations, strict=True)):
        members = members_of(organisation)
        touched = [one for one in joined if one[0] == family and not members.isdisjoint(one[1])]
        joined = [one for one in joined if one not in touched]
        joined.append((family, members.union(*(one[1] for one in touched))))
    names = {
        (family, member): name_machine("+".join(sorted(all_)), family) for family, all_ in joined for member in all_
    }
    return [names[family, min(members_of(org))] for family, org in zip(families, organisations, strict=True)]


def members_of(organisation: str) -> frozenset[str]:
    """Return the members of a joint submission, in any spelling: "Fujitsu+RIKEN"."""
    return frozenset(part.strip().casefold() for part in organisation.split("+"))


def _why_unusable(row: Mapping[Any, Any]) -> str:
    """Return what excludes a result from the fits; blank if nothing does."""
    needed = (*_NEEDED, "quality_target") if row["benchmark"] in QUALITY else _NEEDED
    missing = [name for name in needed if not _is_positive(row[name])]
    return f"without {', '.join(missing)}" if missing else ""


def _name_targets(rows: pd.DataFrame) -> "pd.Series[str]":
    """Return the target of each row if it is not the official one, as the end of an edition's name; else blank."""
    official = rows["benchmark"].map({name: quality.target for name, quality in QUALITY.items()})
    pairs = zip(rows["quality_target"].astype(float), official.astype(float), strict=True)
    names = [OTHER_TARGET.format(own) if abs(own - asked) > 0 else "" for own, asked in pairs]
    return pd.Series(names, rows.index, dtype="str")


def _thinned(members: pd.DataFrame) -> pd.DataFrame:
    """Mark submissions beyond `MOST_SUBMISSIONS` as unusable; the rest are spread evenly over units and batches."""
    usable = members[members["unusable"] == ""]
    if len(usable) <= MOST_SUBMISSIONS:
        return members
    ordered = usable.sort_values(["units", "global_batch_samples"], kind="stable").index
    kept = ordered[np.linspace(0, len(ordered) - 1, MOST_SUBMISSIONS).round().astype(int)]
    surplus = usable.index.difference(kept)
    reason = SURPLUS(found=len(usable), most=MOST_SUBMISSIONS)
    return members.assign(unusable=members["unusable"].mask(members.index.isin(surplus), reason))


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float | np.number) and bool(np.isfinite(value)) and float(value) > 0


def _each_once(rows: pd.DataFrame) -> pd.DataFrame:
    """Drop republished results (:func:`_number_results`); of one result, the usable row published first stays.

    The order of the sources does not count: named newest first, what an earlier round knew would pass for new.
    """
    rows = rows.sort_values("origin", key=lambda all_: all_.astype(str).map(publication_order), kind="stable")
    rows = rows.reset_index(drop=True)
    counted = rows["unusable"] == ""
    groups = _number_results(rows[counted]).reindex(rows.index, fill_value=-1)
    origins = rows["origin"].astype(str)
    others = {
        int(group): ", ".join(dict.fromkeys(part.iloc[1:])) for group, part in origins[counted].groupby(groups[counted])
    }
    kept = ~(counted & groups.duplicated())
    again = [others.get(int(group), "") for group in groups]
    return rows.assign(republished=again)[kept].reset_index(drop=True)


def _number_results(rows: pd.DataFrame) -> "pd.Series[int]":
    """Return the number of each row's result, which republished rows share.

    These have the same runs (`same_runs_as`), also under another name, or else the same system, time to the millisecond
    and epochs.
    """
    key = ["benchmark", "system", "run_s", "epochs", "global_batch_samples", "train_samples"]
    rounded = rows[key].assign(run_s=rows["run_s"].astype(float).round(3), epochs=rows["epochs"].astype(float).round(6))
    by_numbers = rounded.groupby(key, sort=False, dropna=False).ngroup()
    said = rows["same_runs_as"].fillna("").astype(str)
    first = said.where(said != "", rows["origin"].astype(str) + " " + rows["submission"].astype(str))
    alone = pd.Series(rows.index, rows.index).astype(str)
    by_runs = [rows["benchmark"], first.where(first.isin(said), alone)]
    numbers, joined = by_numbers, by_numbers.groupby(by_runs).transform("min")
    while not joined.equals(numbers):
        numbers, joined = joined, joined.groupby(by_numbers).transform("min").groupby(by_runs).transform("min")
    return numbers


def _fitting(references: pd.DataFrame, members: pd.DataFrame, edition: str) -> pd.DataFrame:
    """Return the references with the same samples and the official target; DeepCAM's evaluate after every epoch."""
    samples = float(members["train_samples"].astype(float).max())
    ratio = references["train_samples"].astype(float) / samples
    near = (ratio < SAME_SAMPLES_RATIO) & (ratio > 1 / SAME_SAMPLES_RATIO)
    fits = not edition.endswith(BY_STEPS) and not any(_name_targets(members))
    return references[near & fits]
