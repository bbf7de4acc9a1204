# Reads:  the benchmark files' `data` settings, config/datasets.tsv
# Writes: data/{dataset}/manifest.json and the samples next to it


rule prepare_data:
    output:
        manifest="data/{dataset}/manifest.json",
    log:
        "logs/prepare_data/{dataset}.log",
    priority: DATA_FIRST
    conda:
        "../../envs/hpcai.yaml"
    envmodules:
        *CAMPAIGN.machine.modules,
    params:
        workload=data_workload,
        settings=data_settings,
    script:
        "../scripts/prepare_data.py"
