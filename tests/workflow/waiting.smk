# A toy: `done` short jobs, then eight ready ones behind each other, of which each sleeps. `quiet` as the workflow does.
if config.get("quiet"):

    include: "../../workflow/rules/controller.smk"

    onstart:
        look_again_only_if_held_back()


SLEEPS_S = config.get("sleeps_s", 4)


rule all:
    input:
        expand("long/{number}", number=range(8)),


rule short:
    output:
        touch("short/{number}"),


rule long:
    input:
        expand("short/{number}", number=range(int(config["done"]))),
    output:
        "long/{number}",
    threads: 1024
    params:
        sleeps_s=SLEEPS_S,
    shell:
        "echo {wildcards.number} >> sleeping; sleep {params.sleeps_s}; touch {output}"
