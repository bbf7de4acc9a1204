#!/usr/bin/env bash
# Written by envs/conda.py from requirements-cuda.lock; do not edit.
set -euo pipefail
export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1
command -v mpicc >/dev/null && export HOROVOD_WITH_MPI=1 || export HOROVOD_WITHOUT_MPI=1
# NCCL of the environment under the names that a linker looks for, and the compiler of the CUDA 13 wheels, as
# envs/cuda.py has them. Horovod's library looks for NCCL in this folder, which stays.
export HOROVOD_NCCL_HOME="$CONDA_PREFIX/lib/nccl"
wheel=$(python -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])')
mkdir -p "$HOROVOD_NCCL_HOME/lib"
ln -sfn "$wheel/include" "$HOROVOD_NCCL_HOME/include"
ln -sf "$wheel/lib/libnccl.so.2" "$HOROVOD_NCCL_HOME/lib/libnccl.so"
ln -sf "$wheel/lib/libnccl.so.2" "$HOROVOD_NCCL_HOME/lib/libnccl.so.2"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
pip install --no-deps --target "$scratch" nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 nvidia-cuda-culibos==13.0.85
export HOROVOD_CUDA_HOME="$scratch/nvidia/cu13"
ln -s lib "$HOROVOD_CUDA_HOME/lib64"
ln -s libcudart.so.13 "$HOROVOD_CUDA_HOME/lib/libcudart.so"
export PATH="$HOROVOD_CUDA_HOME/bin:$PATH"
export HOROVOD_GPU=CUDA HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_NCCL_LINK=SHARED HOROVOD_BUILD_CUDA_CC_LIST=80,90
pip install --no-deps --no-build-isolation --no-cache-dir horovod==0.28.1
