"""Make the virtual environment from requirements.lock: `python3.11 envs/install.py VENV`.

Only the standard library is used: this runs before anything is installed. A second call with an unchanged lock
file does nothing. Horovod is compiled here, against the TensorFlow of the same lock file, with MPI if there is
an `mpicc` and with Gloo always.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
PYTHON = (3, 11)
PACKAGES, PROJECT = "packages.sha256", "project.sha256"
SOURCE_BUILT = ("connection-pool", "horovod")  # published without wheels


def main() -> None:
    """Check the machine, then install in three steps: wheels, Horovod, this project."""
    venv = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".venv").resolve()
    check_machine()
    if not is_current(venv, PACKAGES):
        install_packages(venv)
    if is_current(venv, PROJECT):
        print(f"{venv} is up to date")
        return
    say(3, "HPC-AI Bench itself")
    run([*pip(venv), "install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)])
    mark_current(venv, PROJECT)


def install_packages(venv: Path) -> None:
    """Make the environment anew with everything that the lock file names."""
    wheels, source = split_lock(LOCK.read_text())
    run([sys.executable, "-m", "venv", "--clear", str(venv)])
    scratch = venv / "locks"
    scratch.mkdir()
    (scratch / "wheels.txt").write_text(wheels)
    (scratch / "source.txt").write_text(source)
    locked = [*pip(venv), "install", "--quiet", "--require-hashes", "--no-deps"]
    say(1, "Python packages of requirements.lock (about a minute)")
    run([*locked, "--only-binary", ":all:", "-r", str(scratch / "wheels.txt")])
    say(2, "Horovod, compiled from its source (about three minutes)")
    # Never from pip's cache: a wheel kept there may belong to another TensorFlow or lack MPI.
    run(
        [*locked, "--no-cache-dir", "--no-build-isolation", "-r", str(scratch / "source.txt")],
        env=horovod_environment(venv),
    )
    mark_current(venv, PACKAGES)


def pip(venv: Path) -> list[str]:
    """Return the command that calls the environment's pip."""
    return [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]


def is_current(venv: Path, stamp: str) -> bool:
    """Tell whether a part of the environment was made from what is here now."""
    file = venv / stamp
    return file.is_file() and file.read_text() == digest(stamp)


def mark_current(venv: Path, stamp: str) -> None:
    """Note what a part of the environment was made from."""
    (venv / stamp).write_text(digest(stamp))


def check_machine() -> None:
    """Stop with one sentence if Python, the compiler or make is missing."""
    if sys.version_info[:2] != PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        sys.exit(f"Python 3.11 is needed, this is {found}: call `make PYTHON=/path/to/python3.11 …`.")
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        sys.exit("Python's venv module is incomplete here: install the package python3-venv and call make again.")
    for program, package in {"g++": "g++", "make": "make"}.items():
        if shutil.which(program) is None:
            sys.exit(f"{program} is needed to compile Horovod: install the package {package} and call make again.")


def digest(stamp: str) -> str:
    """Return what a part depends on: the lock, this script and whether MPI is there; or the project and its place."""
    parts = [LOCK.read_bytes(), Path(__file__).read_bytes(), str(shutil.which("mpicc")).encode()]
    if stamp == PROJECT:
        parts += [(ROOT / "pyproject.toml").read_bytes(), str(ROOT).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def split_lock(text: str) -> tuple[str, str]:
    """Split the lock into what comes as wheels and what is compiled here.

    Lines that begin with a space continue the requirement before them.
    """
    blocks: list[str] = []
    for line in text.splitlines(keepends=True):
        if line.startswith((" ", "\t")) and blocks:
            blocks[-1] += line
        else:
            blocks.append(line)
    source = [block for block in blocks if block.startswith(tuple(f"{name}==" for name in SOURCE_BUILT))]
    if len(source) != len(SOURCE_BUILT):
        sys.exit(f"{LOCK} does not pin all of {SOURCE_BUILT}: restore it with `git checkout requirements.lock`.")
    return "".join(block for block in blocks if block not in source), "".join(source)


def horovod_environment(venv: Path) -> dict[str, str]:
    """Return the environment of Horovod's build (its docs/install.rst, "Environment Variables")."""
    mpi = "HOROVOD_WITH_MPI" if shutil.which("mpicc") else "HOROVOD_WITHOUT_MPI"
    settings = ["HOROVOD_WITH_TENSORFLOW", "HOROVOD_WITH_GLOO", "HOROVOD_WITHOUT_PYTORCH", "HOROVOD_WITHOUT_MXNET", mpi]
    path = f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **dict.fromkeys(settings, "1"), "PATH": path, "MAKEFLAGS": f"-j{os.cpu_count() or 1}"}


def say(step: int, what: str) -> None:
    """Print one progress line."""
    print(f"[{step}/3] {what}", flush=True)


def run(command: list[str], env: dict[str, str] | None = None) -> None:
    """Run one step; stop with its exit status if it fails."""
    status = subprocess.run(command, env=env, check=False).returncode
    if status:
        sys.exit(f"Setting up failed with exit status {status} in: {' '.join(command)}")


if __name__ == "__main__":
    main()
