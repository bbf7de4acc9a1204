"""Write the lock files' pins as conda environments: `python3.11 envs/conda.py`.

`NAME.post-deploy.sh` compiles Horovod after the other packages; Snakemake runs the script of `hpcai.yaml` itself.
"""

import re
from pathlib import Path

import cuda

ENVS = Path(__file__).resolve().parent
LOCKS = {"hpcai": "requirements.lock", "hpcai-cuda": "requirements-cuda.lock"}
"""Lock files by environment name."""
HEAD = """\
# Written by envs/conda.py from {lock}; do not edit.
channels:
  - conda-forge
  - nodefaults
dependencies:
  - python=3.11
  - gxx=12
  - make
  - pip
  - pip:
"""
POST_DEPLOY = """\
#!/usr/bin/env bash
# Written by envs/conda.py from {lock}; do not edit.
set -euo pipefail
export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1
command -v mpicc >/dev/null && export HOROVOD_WITH_MPI=1 || export HOROVOD_WITHOUT_MPI=1
{cuda}pip install --no-deps --no-build-isolation --no-cache-dir horovod=={horovod}
"""
CUDA = """\
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
pip install --no-deps --target "$scratch" {compiler}
export HOROVOD_CUDA_HOME="$scratch/nvidia/cu13"
ln -s lib "$HOROVOD_CUDA_HOME/lib64"
ln -s libcudart.so.13 "$HOROVOD_CUDA_HOME/lib/libcudart.so"
export PATH="$HOROVOD_CUDA_HOME/bin:$PATH"
export {settings}
"""


def pins(lock: str = LOCKS["hpcai"]) -> dict[str, str]:
    """Return every package of a lock with its version."""
    text = (ENVS.parent / lock).read_text()
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, flags=re.MULTILINE))


def post_deploy(lock: str, versions: dict[str, str]) -> str:
    """Return the script that compiles Horovod, with NCCL if the lock has the compiler packages."""
    compile_cuda = ""
    if set(cuda.COMPILER) <= set(versions):
        chosen = cuda.settings(cuda.Toolkit(cuda.WHEELS, ""))
        compile_cuda = CUDA.format(
            compiler=" ".join(f"{name}=={versions[name]}" for name in cuda.COMPILER),
            settings=" ".join(f"{name}={value}" for name, value in chosen.items()),
        )
    return POST_DEPLOY.format(lock=lock, cuda=compile_cuda, horovod=versions["horovod"])


def main() -> None:
    """Write NAME.yaml and NAME.post-deploy.sh for each lock that has Horovod."""
    for name, lock in LOCKS.items():
        versions = pins(lock)
        left_out = {"horovod", *cuda.COMPILER}
        lines = [f"      - {package}=={one}\n" for package, one in versions.items() if package not in left_out]
        (ENVS / f"{name}.yaml").write_text(HEAD.format(lock=lock) + "".join(lines))
        (ENVS / f"{name}.post-deploy.sh").write_text(post_deploy(lock, versions))


if __name__ == "__main__":
    main()
