# Reads:  data/{dataset}/manifest.json and its samples
# Writes: data/{dataset}/packed/packed.json and the shards next to it


rule pack_data:
    input:
        manifest="data/{dataset}/manifest.json",
    output:
        packed="data/{dataset}/packed/packed.json",
    log:
        "logs/pack_data/{dataset}.log",
    priority: DATA_FIRST
    conda:
        "../../envs/hpcai.yaml"
    envmodules:
        *CAMPAIGN.machine.modules,
    params:
        data=data_settings,
        settings=pack_settings,
    script:
        "../scripts/pack_data.py"
