# The stages by name: each target makes one stage and what it needs. What takes no time runs where Snakemake runs.


localrules:
    plan_run,
    plan_profile,
    plan_instance,
    write_study,
    data,
    pack,
    measure,
    characterise,
    views,
    scores,
    analyse,
    rounds,


rule data:
    input:
        MANIFESTS,


rule pack:
    input:
        PACKS,


rule measure:
    input:
        RECORDS,
        WEAK_GROUPS,


rule characterise:
    input:
        CHARACTERISATIONS,


rule views:
    input:
        VIEW_PAGES,
        "results/characterisation.json",


rule scores:
    input:
        SCORES,


rule analyse:
    input:
        ANALYSES,


rule rounds:
    input:
        "results/rounds.html",
