"""The tables of a study's scores, ranking, rooflines and scaling; each group builds on the tables before it."""

from collections.abc import Mapping, Sequence

import pandas as pd

from hpcai.config.machine import Machine
from hpcai.config.published import Published
from hpcai.metrics.joining import join_tables
from hpcai.metrics.reproducibility import reproducibility_table
from hpcai.metrics.roofline.ceilings import roofline_ceilings
from hpcai.metrics.roofline.declared import declared_ceilings, declared_roofline
from hpcai.metrics.roofline.moves import roofline_moves
from hpcai.metrics.roofline.tables import roofline_points
from hpcai.metrics.scaling.details import detail_scales
from hpcai.metrics.scaling.fits import fit_scaling, trace_scaling
from hpcai.metrics.scores.declared import declared_scores
from hpcai.metrics.scores.declared_checks import check_declared, declared_breakdowns
from hpcai.metrics.scores.movement import movement_scores
from hpcai.metrics.scores.ranking import rank_results
from hpcai.metrics.scores.result_scores import name_datasets, name_divisions, score_machines, score_scales
from hpcai.metrics.scores.trial_scores import score_trials
from hpcai.metrics.scores.variant_effects import compare_variants
from hpcai.records.run import RunRecord

Tables = dict[str, pd.DataFrame]
Given = Mapping[str, pd.DataFrame]


def score_tables(given: Given, records: Sequence[RunRecord], machine: Machine) -> Tables:
    """Return scores of runs, of scales and of the machine, and how well each scale could be repeated.

    Parameters
    ----------
    given
        ``runs``, ``scales``, ``work`` and ``power``.
    records
        Records of the runs.
    machine
        Machine of the runs.
    """
    run_scores = score_trials(given["runs"], given["work"], given["power"], machine)
    datasets, divisions = name_datasets(records), name_divisions(records)
    scores = score_scales(run_scores, given["runs"], given["scales"], datasets, machine, divisions=divisions)
    return {
        "run_scores": run_scores,
        "scores": scores,
        "machine_scores": score_machines(scores),
        "movement_scores": movement_scores(given["runs"], run_scores),
        "reproducibility": reproducibility_table(records, run_scores),
    }


def roofline_tables(given: Given, published: Sequence[Published], machine: Machine) -> Tables:
    """Return points, roofs and moves: of the study, and of published results under their own roofs.

    Parameters
    ----------
    given
        ``scores``, ``runs``, ``scales`` and the views ``communication``, ``ceilings``, ``links``, ``link_fits``,
        ``counters`` and ``work``.
    published
        Published declarations of others.
    machine
        Machine of the study.
    """
    own = roofline_ceilings(given["scores"], given["ceilings"], given["links"], given["link_fits"], machine)
    points = roofline_points(given["scores"], own, given, given["runs"], machine)
    others = join_tables([points.head(0), *map(declared_roofline, published)])
    theirs = join_tables([own.head(0), *map(declared_ceilings, published)])
    return {
        "roofline_points": points,
        "roofline_ceilings": own,
        "roofline_moves": roofline_moves(points, own, given["scales"]),
        "published_points": others,
        "published_ceilings": theirs,
        "published_moves": roofline_moves(others, theirs),
    }


def scaling_tables(given: Given, machine: Machine) -> Tables:
    """Return the explanation of the scaling, the laws fitted to it, and the effects of variants.

    Parameters
    ----------
    given
        ``runs``, ``scales``, ``run_scores``, ``scores``, ``communication``, ``links`` and ``link_fits``.
    machine
        Machine of the study.
    """
    scales, scores, traffic = given["scales"], given["scores"], given["communication"]
    return {
        "scaling_details": detail_scales(scales, scores, traffic, given["links"], given["link_fits"], machine),
        "scaling_fits": fit_scaling(given["runs"]),
        "scaling_curves": trace_scaling(given["runs"]),
        "variant_effects": compare_variants(given["runs"], given["run_scores"]),
    }


def ranking_tables(scores: Sequence[pd.DataFrame], published: Sequence[Published]) -> Tables:
    """Return published results, the check of their numbers, and the ranking of all.

    Parameters
    ----------
    scores
        Tables ``scores``: of the study, then of other results.
    published
        Published declarations of others.
    """
    joined = join_tables(scores)
    declared = join_tables([joined.head(0), *map(declared_scores, published)])
    checks = join_tables([check_declared(one) for one in published])
    return {
        "declared": declared,
        "declared_checks": checks,
        "declared_breakdowns": join_tables([declared_breakdowns(one) for one in published]),
        "ranking": rank_results(join_tables([joined, declared])),
    }
