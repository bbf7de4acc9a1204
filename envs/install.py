"""Make or update the virtual environment from requirements.lock: `python3.11 envs/install.py VENV [--mpi yes|no]`.

Only the standard library is used: this runs before anything is installed. A second call with an unchanged lock file
does nothing, and a changed lock is brought in place. Whether Horovod knows MPI is decided once, by whether there is an
`mpicxx`; from then on only `--mpi` changes it, and nothing but Horovod is swapped.
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
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "envs"))

import horovod_wheel  # noqa: E402

LOCK = ROOT / "requirements.lock"
PYTHON = (3, 11)
STATE, LOG, HOROVOD_LOG = "installed.json", "install.log", "horovod.log"
BUILD_TOOLS = ("tensorflow-cpu", "setuptools", "wheel", "cmake", "packaging")
"""What has to be there, with its own needs, before Horovod is compiled."""
COMPILED = ("--compile-bytecode",)
"""To bytecode, of every package: ranks that start together would each do it, and again at each start where
PYTHONDONTWRITEBYTECODE is set, as in many images: 3.3 of the 4.5 s that its imports took."""
TAIL = 15


class SetUpError(Exception):
    """A step failed; a log says why."""

    def __init__(self, what: str, log: Path) -> None:
        super().__init__(what)
        self.log = log


def main() -> None:
    """Bring the environment up to date, or say in a few lines why it cannot be."""
    arguments = parse_arguments()
    check_machine(arguments.mpi)
    venv = Path(arguments.venv).resolve()
    venv.mkdir(parents=True, exist_ok=True)
    with (venv / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            Environment(venv).update(arguments.mpi)
        except SetUpError as error:
            sys.exit(failure(error))


def parse_arguments() -> argparse.Namespace:
    """Return where the environment is to be and whether Horovod is to know MPI."""
    parser = argparse.ArgumentParser(description="Make or update the virtual environment.")
    parser.add_argument("venv", nargs="?", default=str(ROOT / ".venv"))
    parser.add_argument("--mpi", choices=("yes", "no"), help="change whether Horovod knows MPI; default: as it is")
    return parser.parse_args()


class Environment:
    """The virtual environment and what it was made from, part by part (`installed.json`)."""

    def __init__(self, venv: Path) -> None:
        self.venv, self.python, self.log = venv, venv / "bin" / "python", venv / LOG
        self.blocks = lock_blocks(LOCK.read_text())
        self.state: dict[str, object] = {}
        if (venv / STATE).is_file():
            self.state = json.loads((venv / STATE).read_text())
        self.wanted = {
            "packages": digest("".join(self.blocks.values())),
            "project": digest((ROOT / "pyproject.toml").read_text(), str(ROOT)),
            "horovod": digest(self.locked(*horovod_wheel.LOCKED)),
        }

    def update(self, asked: str | None) -> None:
        """Do what is missing; Horovod is compiled while the other packages are installed."""
        if not self.is_usable():
            self.create()
        stale = {part for part, wanted in self.wanted.items() if self.state.get(part) != wanted}
        mpi = self.chosen_mpi(asked)
        if asked and self.state.get("wheel") != self.wheel_folder(mpi).name:
            stale.add("horovod")
        if not stale:
            print(f"{self.venv} is up to date")
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
                self.install_horovod(compiling, mpi)

    def is_usable(self) -> bool:
        """Tell whether there is an environment of this Python."""
        if not self.python.exists():
            return False
        version = subprocess.run([self.python, "-c", "import pip, sys; print(sys.version_info[:2])"],
                                 capture_output=True, text=True, check=False).stdout.strip()  # fmt: skip
        return version == str(PYTHON)

    def create(self) -> None:
        """Make an empty environment, around the files that this set-up has open."""
        self.state = {}
        for item in self.venv.iterdir():
            if item.is_dir() and not item.is_symlink():
                shutil.rmtree(item)
            elif item.name != "install.lock":
                item.unlink()
        self.log.write_text("")
        with step("an empty virtual environment"):
            self.call(sys.executable, "-m", "venv", self.venv)

    def chosen_mpi(self, asked: str | None) -> bool:
        """Tell whether Horovod is to know MPI: as asked, else as it is, else if there is an MPI to build it with."""
        if asked:
            return asked == "yes"
        there = horovod_wheel.mpi_is_here()
        return bool(self.state.get("mpi", there)) and (there or self.state.get("horovod") == self.wanted["horovod"])

    def install_build_tools(self) -> None:
        """Install uv, then TensorFlow and what compiles Horovod, with all that they need."""
        with step("TensorFlow and build tools"):
            uv, tools = self.write_list("uv", self.locked("uv")), self.write_list("build", self.locked(*BUILD_TOOLS))
            self.call(self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check",
                      "--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", uv)  # fmt: skip
            self.uv("install", "--require-hashes", "--only-binary", ":all:", *COMPILED, "-c", LOCK, "-r", tools)

    def install_packages(self) -> None:
        """Install the rest of the lock and remove what it does not name."""
        with step(f"{len(self.blocks)} packages of requirements.lock"):
            rest = self.write_list("packages", self.locked(*(name for name in self.blocks if name != "horovod")))
            self.uv("install", "--require-hashes", "--no-deps", "--no-build-isolation", *COMPILED, "-r", rest)
            kept = {*self.blocks, "hpcai", "pip"}
            if extra := [name for name in self.installed() if name not in kept]:
                self.uv("uninstall", *extra)
            self.mark(packages=self.wanted["packages"])

    def install_project(self) -> None:
        """Install this checkout, so that it is imported from where it lies."""
        with step("HPC-AI Bench itself"):
            self.uv("install", "--no-deps", "--no-build-isolation", "--editable", ROOT)
            self.call(self.python, "-m", "compileall", "-q", "-j", 0, ROOT / "src")
            self.mark(project=self.wanted["project"])

    def wheel_folder(self, mpi: bool) -> Path:
        """Return where the Horovod that this machine would compile is kept."""
        key = horovod_wheel.wheel_key(self.locked(*horovod_wheel.LOCKED), mpi)
        return horovod_wheel.wheels_folder(self.venv) / key

    def start_compiling(self, pool: ThreadPoolExecutor, mpi: bool) -> Future[Path]:
        """Begin to make the wheel if none is kept; the result is its folder."""
        folder = self.wheel_folder(mpi)
        if horovod_wheel.kept_wheel(folder) is not None:
            return pool.submit(lambda: folder)
        say("Horovod: compiling beside the next steps, one to two minutes on two cores")
        return pool.submit(self.compile_horovod, folder, mpi)

    def compile_horovod(self, folder: Path, mpi: bool) -> Path:
        """Compile Horovod into a folder, and return that."""
        log = self.venv / HOROVOD_LOG
        try:
            horovod_wheel.build_wheel(self.venv, self.blocks["horovod"], folder, mpi, log)
        except subprocess.CalledProcessError as error:
            raise SetUpError("Horovod could not be compiled", log) from error
        return folder

    def install_horovod(self, compiling: Future[Path], mpi: bool) -> None:
        """Put the wheel in the place of the Horovod that is there."""
        with step(f"Horovod {'with' if mpi else 'without'} MPI"):
            folder = compiling.result()
            wheel, found = horovod_wheel.kept_wheel(folder) or (None, None)
            if wheel is None:
                raise SetUpError(f"{folder} holds no whole wheel of Horovod", self.log)
            listed = self.write_list("horovod", f"horovod @ {wheel.as_uri()} --hash=sha256:{found}\n")
            self.uv("install", "--require-hashes", "--no-deps", *COMPILED,
                    "--reinstall-package", "horovod", "-r", listed)  # fmt: skip
            self.mark(horovod=self.wanted["horovod"], wheel=folder.name, mpi=mpi)

    def installed(self) -> list[str]:
        """Return the names of all packages in the environment."""
        command = [self.venv / "bin/uv", "pip", "list", "-q", "--format", "json", "--python", self.python]
        return [package["name"] for package in json.loads(horovod_wheel.output(list(map(str, command))))]

    def write_list(self, name: str, text: str) -> Path:
        """Write requirements to a file of their own."""
        file = self.venv / "locks" / f"{name}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return file

    def locked(self, *names: str) -> str:
        """Return the lock's entries of some packages."""
        return "".join(self.blocks[name] for name in names)

    def uv(self, command: str, *arguments: object) -> None:
        """Call uv for this environment; the package index is the one that pip uses."""
        index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL") or self.pip_setting("index-url")
        env = {**os.environ, **({"UV_DEFAULT_INDEX": index} if index else {})}
        self.call(self.venv / "bin/uv", "pip", command, "--python", self.python, *arguments, env=env)

    def pip_setting(self, name: str) -> str:
        """Return a value of pip's configuration files, or nothing."""
        command = [self.python, "-m", "pip", "config", "get", f"global.{name}"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    def call(self, *command: object, env: dict[str, str] | None = None) -> None:
        """Run a program; what it prints goes to the log."""
        with self.log.open("a") as lines:
            print("$", *command, file=lines, flush=True)
            done = subprocess.run(list(map(str, command)), env=env, stdout=lines, stderr=lines, check=False)
        if done.returncode:
            raise SetUpError(f"{Path(str(command[0])).name} ended with status {done.returncode}", self.log)

    def mark(self, **parts: object) -> None:
        """Note what a part of the environment was made from."""
        self.state.update(parts)
        scratch = self.venv / f"{STATE}.new"
        scratch.write_text(json.dumps(self.state, indent=2) + "\n")
        scratch.replace(self.venv / STATE)


def check_machine(mpi: str | None = None) -> None:
    """Stop with one sentence if Python, a compiler or make is missing."""
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
    if mpi == "yes" and not horovod_wheel.mpi_is_here():
        sys.exit("MPI=yes needs mpicxx and mpi.h: install the package libopenmpi-dev, or load a module of MPI.")


def lock_blocks(text: str) -> dict[str, str]:
    """Split the lock into its packages, each with its hashes."""
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    blocks = {re.split("[=; ]", entry)[0]: entry for entry in entries}
    if missing := {"uv", *BUILD_TOOLS, *horovod_wheel.LOCKED} - set(blocks):
        sys.exit(f"{LOCK} does not pin {', '.join(sorted(missing))}: restore it with `git checkout requirements.lock`.")
    return blocks


def digest(*parts: str) -> str:
    """Return one SHA-256 of several texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def say(what: str) -> None:
    """Print one progress line."""
    print(f"set-up: {what}", flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print what was done and how long it took."""
    started = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - started:.0f} s")


def failure(error: SetUpError) -> str:
    """Return what a person needs to go on: what failed, the log's end, what to do."""
    tail = error.log.read_text(errors="replace").splitlines()[-TAIL:]
    advice = (
        "Mend what they name (no network? full disk? a mirror: PIP_INDEX_URL=…) and call make again: it goes on here."
    )
    return "\n".join(
        [f"Setting up failed: {error}. The last lines of {error.log}:", *(f"  {line}" for line in tail), advice]
    )


if __name__ == "__main__":
    main()
