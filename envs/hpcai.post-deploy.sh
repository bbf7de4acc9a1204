#!/usr/bin/env bash
# Written by envs/conda.py from requirements.lock; do not edit.
set -euo pipefail
export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1
command -v mpicc >/dev/null && export HOROVOD_WITH_MPI=1 || export HOROVOD_WITHOUT_MPI=1
pip install --no-deps --no-build-isolation --no-cache-dir horovod==0.28.1
