#!/bin/sh
# Repeats the runs of this result from their plans: the same settings and seeds, one log each (raw/mllog.txt).
# setup.sh and init_datasets.sh come first. A run that is there already is left as it is.
set -e
here=$(cd "$(dirname "$0")" && pwd)
{% if plan.machine.storage.node_local == "${SCRATCH_PATH}" %}
: "${SCRATCH_PATH:?set it to a folder on each node}"
export SCRATCH_PATH
{% endif %}
cd "$here/../{{ implementation }}"
. .venv/bin/activate
{% if result.scaling == "weak" %}
# One group: {{ result.measured }} instances beside each other, each on its own part of the machine.
hpcai measure-weak \
    --plans "$here"/plans/*.json \
    --manifest {{ dataset }}/manifest.json \
{% if packed %}
    --pack {{ dataset }}/packed/packed.json \
{% endif %}
    --launcher {{ launcher }} \
    --folder {{ folder }}
{% else %}
for plan in "$here"/plans/*.json; do
    number=$(basename "$plan" .json)
    hpcai measure \
        --plan "$plan" \
        --manifest {{ dataset }}/manifest.json \
{% if packed %}
        --pack {{ dataset }}/packed/packed.json \
{% endif %}
        --launcher {{ launcher }} \
        --folder {{ folder }}/r"$number"
done
{% endif %}
