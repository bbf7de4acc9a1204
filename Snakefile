"""HPC-AI Bench: datasets, packing, repeated training runs, characterisation, analysis, report."""

from snakemake.utils import min_version

min_version("9.0")


include: "workflow/rules/controller.smk"
include: "workflow/rules/journal.smk"
include: "workflow/rules/common.smk"
include: "workflow/rules/plans.smk"
include: "workflow/rules/resources.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/published.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/pack.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/weak.smk"
include: "workflow/rules/characterise.smk"
include: "workflow/rules/analyse.smk"
include: "workflow/rules/profiles.smk"
include: "workflow/rules/views.smk"
include: "workflow/rules/scores.smk"
include: "workflow/rules/predict.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/rounds.smk"
include: "workflow/rules/targets.smk"


onstart:
    look_again_only_if_held_back()
    note_start()
    name_lacking_cores()


localrules:
    all,


rule all:
    default_target: True
    input:
        "results/report.html",
        "results/workflow_report.html",
        "results/outcomes.json",
        CHARACTERISATIONS,
        WEAK_GROUPS,
