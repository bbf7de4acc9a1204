"""Create or update the virtual environment from a lock file: `python3.11 envs/install.py VENV [--device cuda] ...`.

Uses only the standard library, because it runs before anything is installed. A second call with an unchanged lock file
does nothing; a changed lock is installed. The first call decides the composition of an environment, later only options
change it: the lock (`--device`, `--lock`), whether to include Horovod (`--horovod`; by default if it can be compiled),
and whether Horovod supports MPI (`--mpi`; by default if there is an `mpicxx`).
"""

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "envs"))

import cuda  # noqa: E402
import horovod_wheel  # noqa: E402

LOCKS = {"cpu": "requirements.lock", "cuda": "requirements-cuda.lock", "newest": "requirements-newest.lock"}
"""Lock files by `--device` and `--lock`; the newest TensorFlow has no Horovod, which does not compile with it."""
PYTHON = (3, 11)
STATE, LOG, HOROVOD_LOG = "installed.json", "install.log", "horovod.log"
BUILD_TOOLS = ("setuptools", "wheel", "cmake", "packaging")
"""Packages that, with their dependencies and TensorFlow, must be installed before Horovod is compiled."""
COMPILERS = ("g++", "make")
WITHOUT = "engine tensorflow with the launcher spawn needs no Horovod"
COMPILED = ("--compile-bytecode",)
"""Compile every package to bytecode. Otherwise ranks that start together would each do it, and, with
PYTHONDONTWRITEBYTECODE set as in many images, at each start: 3.3 of the 4.5 s of import time."""
TAIL = 15


class SetUpError(Exception):
    """A step failed; a log has the reason."""

    def __init__(self, what: str, log: Path) -> None:
        super().__init__(what)
        self.log = log


def main() -> None:
    """Update the environment, or explain in a few lines why this failed."""
    asked = parse_arguments()
    check_machine(asked)
    venv = Path(asked.venv).resolve()
    venv.mkdir(parents=True, exist_ok=True)
    with (venv / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            Environment(venv, asked.lock).update(asked)
        except SetUpError as error:
            sys.exit(failure(error))
        except cuda.UnusableError as error:
            sys.exit(f"{error}.")


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Return the environment's path and the requested options; None: unchanged."""
    parser = argparse.ArgumentParser(description="Make or update the virtual environment.")
    parser.add_argument("venv", nargs="?", default=str(ROOT / ".venv"))
    parser.add_argument("--device", choices=("cpu", "cuda"), help="device that TensorFlow and Horovod use")
    parser.add_argument("--lock", choices=("default", "newest"), help="newest: the newest TensorFlow, without Horovod")
    parser.add_argument("--horovod", choices=("yes", "no"), help="no: only wheels, needs no compiler")
    parser.add_argument("--mpi", choices=("yes", "no"), help="whether Horovod supports MPI")
    asked = parser.parse_args(words)
    newest = asked.lock == "newest"
    if newest and (asked.device == "cuda" or asked.horovod == "yes"):
        parser.error(
            "the newest TensorFlow is locked for processors and without Horovod, which does not compile with it"
        )
    asked.lock = "newest" if newest else asked.device or (asked.lock and "cpu")
    return asked


class Environment:
    """The virtual environment, and the origin of each of its parts (`installed.json`)."""

    def __init__(self, venv: Path, lock: str | None = None) -> None:
        self.venv, self.python, self.log = venv, venv / "bin" / "python", venv / LOG
        self.state: dict[str, object] = {}
        if (venv / STATE).is_file():
            self.state = json.loads((venv / STATE).read_text())
        self.had = str(self.state.get("lock", LOCKS["cpu"]))
        self.lock = ROOT / (LOCKS[lock] if lock else self.had)
        self.blocks = lock_blocks(self.lock.read_text(), self.lock)
        self.of_cuda = "nvidia-cuda-nvcc" in self.blocks
        self.wanted = {
            "packages": digest("".join(self.blocks.values())),
            "project": digest((ROOT / "pyproject.toml").read_text(), str(ROOT)),
            "horovod": digest(self.locked(*horovod_wheel.LOCKED)),
        }
        self.toolkit: cuda.Toolkit | None = None

    def update(self, asked: argparse.Namespace) -> None:
        """Install what is missing; compile Horovod while the other packages are installed."""
        # TensorFlow's builds share a folder: removing one would damage the other.
        if not self.is_usable() or self.had != self.lock.name:
            self.create()
        without = self.why_no_horovod(asked.horovod)
        if without is not None:
            self.wanted.pop("horovod")
        stale = {part for part, wanted in self.wanted.items() if self.state.get(part) != wanted}
        mpi = without is None and self.chosen_mpi(asked.mpi)
        if without is None and asked.mpi and self.state.get("wheel") != self.wheel_folder(mpi).name:
            stale.add("horovod")
        if not stale and without == self.state.get("without_horovod"):
            print(f"{self.venv} is up to date{'' if without is None else f' (no Horovod: {without}; {WITHOUT})'}")
            return
        self.log.write_text("")
        if "packages" in stale:
            self.install_build_tools()
        with ThreadPoolExecutor(1) as pool:
            compiling = self.start_compiling(pool, mpi) if "horovod" in stale else None
            if "packages" in stale:
                self.install_packages()
            if stale & {"packages", "project"}:
                self.install_project()
            if compiling:
                without = self.install_horovod(compiling, mpi, must=asked.horovod == "yes")
        self.note_horovod(without)

    def is_usable(self) -> bool:
        """Return whether an environment of this Python exists."""
        if not self.python.exists():
            return False
        version = subprocess.run([self.python, "-c", "import pip, sys; print(sys.version_info[:2])"],
                                 capture_output=True, text=True, check=False).stdout.strip()  # fmt: skip
        return version == str(PYTHON)

    def create(self) -> None:
        """Create an empty environment, keeping the files that this set-up has open."""
        self.state = {}
        for item in self.venv.iterdir():
            if item.is_dir() and not item.is_symlink():
                shutil.rmtree(item)
            elif item.name != "install.lock":
                item.unlink()
        self.log.write_text("")
        with step("an empty virtual environment"):
            self.call(sys.executable, "-m", "venv", self.venv)
        self.mark(lock=self.lock.name)

    def chosen_mpi(self, asked: str | None) -> bool:
        """Return whether Horovod gets MPI: as requested, else as before, else if MPI is available for the build."""
        if asked:
            return asked == "yes"
        there = horovod_wheel.mpi_is_here()
        return bool(self.state.get("mpi", there)) and (there or self.state.get("horovod") == self.wanted["horovod"])

    def why_no_horovod(self, asked: str | None) -> str | None:
        """Return why this environment gets no Horovod; None if it gets one."""
        if "horovod" not in self.blocks:
            return f"{self.lock.name} has none"
        if asked == "no":
            return "HOROVOD=no"
        known = self.state.get("without_horovod")
        if asked is None and known is not None:
            return str(known)
        if self.state.get("horovod") == self.wanted["horovod"]:
            return None
        lacking = missing_compiler() or self.unusable_toolkit()
        if lacking and (asked == "yes" or "horovod" in self.state):
            sys.exit(f"{lacking}; or call make env HOROVOD=no: {WITHOUT}.")
        return lacking

    def unusable_toolkit(self) -> str | None:
        """Find the CUDA compiler if the lock needs one; return why none is usable."""
        if not self.of_cuda:
            return None
        try:
            self.toolkit = cuda.find_toolkit(self.locked(*cuda.COMPILER))
        except cuda.UnusableError as error:
            return str(error)
        return None

    def note_horovod(self, without: str | None) -> None:
        """Record whether Horovod is installed, and print a note if not; remove one that is no longer wanted."""
        if without is None:
            self.state.pop("without_horovod", None)
            self.mark()
            return
        if self.state.pop("horovod", None) is not None:
            self.uv("uninstall", "horovod")
        self.mark(without_horovod=without)
        say(f"no Horovod ({without}): {WITHOUT}; `hpcai run` uses them")

    def install_build_tools(self) -> None:
        """Install uv, then TensorFlow and the tools that compile Horovod, with all their dependencies."""
        with step("TensorFlow and build tools"):
            tensorflow = [name for name in self.blocks if name in {"tensorflow", "tensorflow-cpu"}]
            uv = self.write_list("uv", self.locked("uv"))
            tools = self.write_list("build", self.locked(*tensorflow, *BUILD_TOOLS, *cuda.LIBRARIES))
            self.call(self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check",
                      "--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", uv)  # fmt: skip
            self.uv("install", "--require-hashes", "--only-binary", ":all:", *COMPILED, "-c", self.lock, "-r", tools)

    def install_packages(self) -> None:
        """Install the rest of the lock and remove all other packages."""
        names = [name for name in self.blocks if name not in {"horovod", *cuda.COMPILER}]
        with step(f"{len(names)} packages of {self.lock.name}"):
            rest = self.write_list("packages", self.locked(*names))
            self.uv("install", "--require-hashes", "--no-deps", "--no-build-isolation", *COMPILED, "-r", rest)
            kept = {*self.blocks, "hpcai", "pip"}
            if extra := [name for name in self.installed() if name not in kept]:
                self.uv("uninstall", *extra)
            self.mark(packages=self.wanted["packages"], lock=self.lock.name)

    def install_project(self) -> None:
        """Install this checkout in editable mode."""
        with step("HPC-AI Bench itself"):
            self.uv("install", "--no-deps", "--no-build-isolation", "--editable", ROOT)
            self.call(self.python, "-m", "compileall", "-q", "-j", 0, ROOT / "src")
            self.mark(project=self.wanted["project"])

    def wheel_folder(self, mpi: bool) -> Path:
        """Return the cache folder of the Horovod that this machine would compile."""
        if self.of_cuda and self.toolkit is None:
            self.toolkit = cuda.find_toolkit(self.locked(*cuda.COMPILER))
        key = horovod_wheel.wheel_key(self.locked(*horovod_wheel.LOCKED), mpi, self.toolkit)
        return horovod_wheel.wheels_folder(self.venv) / key

    def start_compiling(self, pool: ThreadPoolExecutor, mpi: bool) -> Future[Path]:
        """Start building the wheel unless it is cached; the result is its folder."""
        folder = self.wheel_folder(mpi)
        if horovod_wheel.kept_wheel(folder) is not None:
            return pool.submit(lambda: folder)
        minutes = "with NCCL, four minutes" if self.toolkit else "one to two minutes"
        say(f"Horovod: compiling during the next steps, {minutes} on two cores")
        return pool.submit(self.compile_horovod, folder, mpi)

    def compile_horovod(self, folder: Path, mpi: bool) -> Path:
        """Compile Horovod into a folder, and return the folder."""
        log = self.venv / HOROVOD_LOG
        with tempfile.TemporaryDirectory(dir=self.venv, prefix="building-") as scratch:
            chosen = horovod_wheel.settings(mpi, self.toolkit) | self.cuda_places(Path(scratch))
            environment = horovod_wheel.build_environment(self.venv, chosen)
            try:
                horovod_wheel.build_wheel(self.venv, self.blocks["horovod"], folder, environment, log)
            except subprocess.CalledProcessError as error:
                raise SetUpError("Horovod could not be compiled", log) from error
        return folder

    def cuda_places(self, scratch: Path) -> dict[str, str]:
        """Return where the build finds NCCL and the CUDA compiler, which is installed now unless the site has one."""
        if self.toolkit is None:
            return {}
        home = self.toolkit.home
        if home is None:
            home = scratch / "nvidia" / "cu13"
            listed = self.write_list("compiler", self.locked(*cuda.COMPILER))
            self.uv("install", "--require-hashes", "--no-deps", "--target", scratch, "-r", listed)
            cuda.link_toolkit(home)
        cuda.link_nccl(self.venv, scratch / "nccl")
        return cuda.places(home, scratch / "nccl")

    def install_horovod(self, compiling: Future[Path], mpi: bool, must: bool) -> str | None:
        """Install the wheel, replacing any other Horovod; return why there is none.

        With CUDA, a failed compilation of Horovod does not stop the set-up, unless Horovod was requested.
        """
        try:
            folder = compiling.result()
        except SetUpError as error:
            if self.toolkit is None or must:
                raise
            return f"{error}, see {error.log}"
        with step(f"Horovod {'with' if mpi else 'without'} MPI{', with NCCL' if self.toolkit else ''}"):
            wheel, found = horovod_wheel.kept_wheel(folder) or (None, None)
            if wheel is None:
                raise SetUpError(f"{folder} holds no whole wheel of Horovod", self.log)
            listed = self.write_list("horovod", f"horovod @ {wheel.as_uri()} --hash=sha256:{found}\n")
            self.uv("install", "--require-hashes", "--no-deps", *COMPILED,
                    "--reinstall-package", "horovod", "-r", listed)  # fmt: skip
            self.mark(horovod=self.wanted["horovod"], wheel=folder.name, mpi=mpi)
        return None

    def installed(self) -> list[str]:
        """Return the names of all installed packages."""
        command = [self.venv / "bin/uv", "pip", "list", "-q", "--format", "json", "--python", self.python]
        return [package["name"] for package in json.loads(horovod_wheel.output(list(map(str, command))))]

    def write_list(self, name: str, text: str) -> Path:
        """Write requirements to a separate file."""
        file = self.venv / "locks" / f"{name}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return file

    def locked(self, *names: str) -> str:
        """Return the lock entries of some packages."""
        return "".join(self.blocks[name] for name in names if name in self.blocks)

    def uv(self, command: str, *arguments: object) -> None:
        """Call uv for this environment, with pip's package index."""
        index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL") or self.pip_setting("index-url")
        env = {**os.environ, **({"UV_DEFAULT_INDEX": index} if index else {})}
        self.call(self.venv / "bin/uv", "pip", command, "--python", self.python, *arguments, env=env)

    def pip_setting(self, name: str) -> str:
        """Return a value from pip's configuration files, blank if unset."""
        command = [self.python, "-m", "pip", "config", "get", f"global.{name}"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    def call(self, *command: object, env: dict[str, str] | None = None) -> None:
        """Run a program; its output goes to the log."""
        with self.log.open("a") as lines:
            print("$", *command, file=lines, flush=True)
            done = subprocess.run(list(map(str, command)), env=env, stdout=lines, stderr=lines, check=False)
        if done.returncode:
            raise SetUpError(f"{Path(str(command[0])).name} ended with status {done.returncode}", self.log)

    def mark(self, **parts: object) -> None:
        """Record the origin of a part of the environment."""
        self.state.update(parts)
        scratch = self.venv / f"{STATE}.new"
        scratch.write_text(json.dumps(self.state, indent=2) + "\n")
        scratch.replace(self.venv / STATE)


def check_machine(asked: argparse.Namespace) -> None:
    """Stop with one sentence if the Python version is wrong, or if a requested part cannot be compiled."""
    if sys.version_info[:2] != PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        sys.exit(f"Python 3.11 is needed, this is {found}: call `make PYTHON=/path/to/python3.11 …`.")
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        sys.exit("Python's venv module is incomplete here: install the package python3-venv and call make again.")
    if asked.mpi == "yes" and not horovod_wheel.mpi_is_here():
        sys.exit("MPI=yes needs mpicxx and mpi.h: install the package libopenmpi-dev, or load a module of MPI.")


def missing_compiler() -> str | None:
    """Return which program needed to compile Horovod is missing, and the package that provides it."""
    for program in COMPILERS:
        if shutil.which(program) is None:
            return f"{program} is needed to compile Horovod: install the package {program}"
    return None


def lock_blocks(text: str, lock: Path) -> dict[str, str]:
    """Split the lock into its packages, each with its hashes."""
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    blocks = {re.split("[=; ]", entry)[0]: entry for entry in entries}
    if missing := {"uv", *BUILD_TOOLS} - set(blocks):
        sys.exit(f"{lock} does not pin {', '.join(sorted(missing))}: restore it with `git checkout {lock.name}`.")
    return blocks


def digest(*parts: str) -> str:
    """Return one SHA-256 of several texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def say(what: str) -> None:
    """Print one progress line."""
    print(f"set-up: {what}", flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print the completed step and its duration."""
    started = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - started:.0f} s")


def failure(error: SetUpError) -> str:
    """Return the message for the user: what failed, the end of the log, what to do."""
    tail = error.log.read_text(errors="replace").splitlines()[-TAIL:]
    advice = (
        "Fix the cause (no network? full disk? a mirror: PIP_INDEX_URL=…) and call make again: it continues from here."
    )
    return "\n".join(
        [f"Setting up failed: {error}. The last lines of {error.log}:", *(f"  {line}" for line in tail), advice]
    )


if __name__ == "__main__":
    main()
