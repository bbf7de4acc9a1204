# A small workflow for the tests of `hpcai run`: three runs, whose length and end the configuration says, and a report.
import time

from hpcai.config.rounds import name_round


include: "../../workflow/rules/journal.smk"


config.setdefault("rounds", [])


rule all:
    input:
        "results/report.html",
        ["results/outcomes.json"] if config.get("lost") else [],


MEASURE = str(config.get("measure")).lower() != "false"
RUNS = [f"results/runs/toy/fp32/n1x1/r{number}/record.json" for number in (1, 2, 3)]


if MEASURE:

    rule train:
        output:
            "results/runs/toy/fp32/n1x1/r{number}/record.json",
        log:
            "logs/train/{number}.log",
        threads: 1024
        params:
            failing=config.get("failing", 0),
            sleeps_s=config.get("sleeps_s", 0),
            on_interrupt="" if config.get("deaf") else "echo INT >> signals; exit 1",
        shell:
            """
            trap '{params.on_interrupt}' INT
            trap 'echo TERM >> signals; exit 1' TERM
            echo {wildcards.number} >>started
            sleep {params.sleeps_s} &
            wait
            [ {wildcards.number} != {params.failing} ]
            echo '{{"outcome": "converged"}}' >{output}
            """


rule import_round:
    output:
        "results/rounds/{round}/study.json",
    log:
        "logs/import_round/{round}.log",
    shell:
        "[ {wildcards.round} = v1.0 ] && touch {output}"


rule report:
    input:
        [file for file in RUNS if MEASURE or Path(file).exists()],
        [f"results/rounds/{name_round(one)}/study.json" for one in config["rounds"]],
    output:
        "results/report.html",
    shell:
        "echo {input} > {output}"


rule require_results:
    input:
        "results/report.html",
    output:
        "results/outcomes.json",
    log:
        "logs/require_results.log",
    shell:
        """
        echo 'hpcai.core.errors.NoResultError: 1 of 3 points have none: mend the cause' >{log}
        exit 1
        """
