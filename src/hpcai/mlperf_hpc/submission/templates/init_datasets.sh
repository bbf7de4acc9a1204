#!/bin/sh
# Once: makes the dataset ready below {{ implementation }}/data, verifies every file, and packs it for staging.
{% if plan.benchmark.data.source == "existing" %}
# The official data have to lie in the folder that DATASET_PATH names.
: "${DATASET_PATH:?set it to the folder of the dataset}"
export DATASET_PATH
{% endif %}
set -e
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../{{ implementation }}"
. .venv/bin/activate
snakemake pack --configfile "$here/config/study.yaml" --config config_dir="$here/config"
