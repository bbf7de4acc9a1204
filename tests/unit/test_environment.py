"""Lock file, pyproject.toml and envs/ say the same; the set-up script's checks speak plainly."""

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "envs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PINS = load("conda").pins()


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_direct_need_is_locked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = [*project["dependencies"], *(need for extra in project["optional-dependencies"].values() for need in extra)]
    pins = {canonical(name): version for name, version in PINS.items()}
    for need in map(Requirement, needs):
        assert need.specifier.contains(pins[canonical(need.name)]), f"{need} is not met by the lock: run `make lock`"


def test_every_locked_package_has_hashes_and_no_address():
    blocks = re.split(r"^(?=\S)", LOCK, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(PINS) > 100
    assert all("--hash=sha256:" in block for block in blocks)
    assert not re.search(r"https?:|--index|--find-links|file:", LOCK)


def test_conda_environment_is_in_step():
    environment = yaml.safe_load((ROOT / "envs/hpcai.yaml").read_text())
    listed = dict(pin.split("==") for pin in environment["dependencies"][-1]["pip"])
    assert {**listed, "horovod": PINS["horovod"]} == PINS, "run `python3.11 envs/conda.py` and commit the result"
    assert f"horovod=={PINS['horovod']}" in (ROOT / "envs/hpcai.post-deploy.sh").read_text()


def test_what_runs_is_what_is_locked():
    installed = {canonical(found.name): found.version for found in metadata.distributions()}
    assert {name: installed.get(canonical(name)) for name in PINS} == PINS


def test_lock_is_split_into_packages():
    blocks = load("install").lock_blocks(LOCK)
    assert "".join(blocks.values()) == LOCK
    assert {name: block.split()[0] for name, block in blocks.items()} == {
        name: f"{name}=={PINS[name]}" for name in PINS
    }


def test_a_lock_without_the_build_tools_is_refused():
    with pytest.raises(SystemExit, match="does not pin uv"):
        load("install").lock_blocks(re.sub(r"^uv==.*\n(    .*\n)*", "", LOCK, flags=re.MULTILINE))


@pytest.mark.parametrize(("program", "package"), [("g++", "g++"), ("make", "make")])
def test_a_missing_compiler_gives_one_sentence(program, package, monkeypatch):
    install = load("install")
    monkeypatch.setattr(install.shutil, "which", lambda name: None if name == program else f"/usr/bin/{name}")
    with pytest.raises(SystemExit, match=re.escape(f"{program} is needed")) as caught:
        install.check_machine()
    assert package in str(caught.value)


def test_a_wrong_python_gives_one_sentence(monkeypatch):
    install = load("install")
    monkeypatch.setattr(install, "PYTHON", (3, 99))
    with pytest.raises(SystemExit, match=r"Python 3\.11 .* 3\.11\."):
        install.check_machine()


def test_mpi_that_cannot_be_compiled_with_gives_one_sentence(monkeypatch):
    install = load("install")
    monkeypatch.setattr(install.horovod_wheel, "mpi_is_here", lambda: False)
    install.check_machine("no")
    with pytest.raises(SystemExit, match="libopenmpi-dev"):
        install.check_machine("yes")


@pytest.mark.parametrize(
    ("known", "same_lock", "there", "asked", "chosen"),
    [
        (None, True, True, None, True),
        (None, True, False, None, False),
        (False, True, True, None, False),
        (True, True, False, None, True),
        (True, False, False, None, False),
        (False, False, True, None, False),
        (False, True, True, "yes", True),
        (True, True, True, "no", False),
    ],
    ids=["new", "new without", "appeared", "vanished", "vanished, new lock", "appeared, new lock", "asked", "refused"],
)
def test_mpi_stays_as_it_was_unless_asked(tmp_path, monkeypatch, known, same_lock, there, asked, chosen):
    install = load("install")
    monkeypatch.setattr(install.horovod_wheel, "mpi_is_here", lambda: there)
    environment = install.Environment(tmp_path)
    if known is not None:
        environment.mark(mpi=known, horovod=environment.wanted["horovod"] if same_lock else "another")
    assert install.Environment(tmp_path).chosen_mpi(asked) is chosen


@pytest.fixture
def wheel_key(monkeypatch):
    """The key's function on a machine whose compiler says what the test wants."""
    wheels = load("horovod_wheel")
    monkeypatch.setattr(wheels, "output", lambda command: " ".join([*command, "12.2"]))
    for name in (*wheels.TOOL_VARIABLES, "HOROVOD_BUILD_ARCH_FLAGS", "HOROVOD_GPU_OPERATIONS"):
        monkeypatch.delenv(name, raising=False)
    return wheels.wheel_key


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CXX", "clang++"),
        ("CXXFLAGS", "-O1"),
        ("HOROVOD_GPU_OPERATIONS", "NCCL"),
        ("HOROVOD_BUILD_ARCH_FLAGS", "-mavx"),
    ],
)
def test_a_wheel_is_kept_for_what_it_was_compiled_with(wheel_key, monkeypatch, name, value):
    key = wheel_key("lock", False)
    assert wheel_key("lock", False) == key
    assert len({key, wheel_key("another lock", False), wheel_key("lock", True)}) == 3
    monkeypatch.setenv(name, value)
    assert wheel_key("lock", False) != key


def test_another_processor_or_compiler_has_another_wheel(monkeypatch):
    wheels = load("horovod_wheel")
    keys = set()
    for version, instructions in (("12.2", ("avx", "fma")), ("13.1", ("avx", "fma")), ("13.1", ("avx",))):
        monkeypatch.setattr(wheels, "output", lambda command, version=version: version)
        monkeypatch.setattr(wheels, "INSTRUCTIONS", instructions)
        monkeypatch.setattr(wheels.Path, "read_text", lambda file: "flags : sse avx fma\n")
        keys.add(wheels.wheel_key("lock", False))
    assert len(keys) == 3


def test_a_damaged_wheel_is_not_used(tmp_path):
    kept_wheel, folder = load("horovod_wheel").kept_wheel, tmp_path / "key"
    assert kept_wheel(folder) is None
    folder.mkdir()
    wheel = folder / "horovod.whl"
    wheel.write_bytes(b"library")
    (folder / "SHA256").write_text(hashlib.sha256(b"library").hexdigest())
    assert kept_wheel(folder) == (wheel, hashlib.sha256(b"library").hexdigest())
    wheel.write_bytes(b"librarx")
    assert kept_wheel(folder) is None
    assert not folder.exists()


def test_a_failed_step_shows_the_end_of_its_log(tmp_path):
    install = load("install")
    environment = install.Environment(tmp_path)
    with pytest.raises(install.SetUpError) as caught:
        environment.call(
            sys.executable, "-c", "print('early'); print('line ' * 3 * 20); raise SystemExit('no network')"
        )
    assert environment.log == caught.value.log
    assert "no network" in install.failure(caught.value)


def test_a_second_call_builds_nothing():
    prefix, install = Path(sys.prefix), load("install")
    if not (prefix / install.STATE).exists():
        pytest.skip(f"{prefix} was not made by envs/install.py")
    # Never from within a test: the call would change the environment that the test runs in.
    state = json.loads((prefix / install.STATE).read_text())
    wanted = install.Environment(prefix).wanted
    assert wanted == {part: state[part] for part in wanted}, "call `make env` first: the lock file has changed"
    command = ["python3.11", str(ROOT / "envs/install.py"), str(prefix)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("is up to date")
