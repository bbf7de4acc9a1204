"""Write the pins of requirements.lock as a conda environment: `python3.11 envs/conda.py`.

Horovod is compiled after the rest is there, by `hpcai.post-deploy.sh`, which Snakemake runs by itself.
"""

import re
from pathlib import Path

ENVS = Path(__file__).resolve().parent
HEAD = """\
# Written by envs/conda.py from requirements.lock; do not edit.
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


def pins() -> dict[str, str]:
    """Return every package of the lock with its version."""
    text = (ENVS.parent / "requirements.lock").read_text()
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, flags=re.MULTILINE))


def main() -> None:
    """Write envs/hpcai.yaml and envs/hpcai.post-deploy.sh."""
    versions = pins()
    lines = [f"      - {name}=={version}\n" for name, version in versions.items() if name != "horovod"]
    (ENVS / "hpcai.yaml").write_text(HEAD + "".join(lines))
    (ENVS / "hpcai.post-deploy.sh").write_text(
        "#!/usr/bin/env bash\n"
        "# Written by envs/conda.py from requirements.lock; do not edit.\n"
        "set -euo pipefail\n"
        "export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1\n"
        "command -v mpicc >/dev/null && export HOROVOD_WITH_MPI=1 || export HOROVOD_WITHOUT_MPI=1\n"
        f"pip install --no-deps --no-build-isolation --no-cache-dir horovod=={versions['horovod']}\n"
    )


if __name__ == "__main__":
    main()
