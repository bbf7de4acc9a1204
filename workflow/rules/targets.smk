# The stages by name: each target makes one stage and what it needs.


localrules:
    all,
    data,
    pack,
    measure,
    characterise,
    views,
    scores,
    analyse,


rule all:
    default_target: True
    input:
        "results/report.html",
        "results/workflow_report.html",
        CHARACTERISATIONS,


rule data:
    input:
        MANIFESTS,


rule pack:
    input:
        PACKS,


rule measure:
    input:
        RECORDS,


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
