"""Lock files, pyproject.toml and envs/ say the same; the set-up script's checks speak plainly."""

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from argparse import Namespace
from concurrent.futures import Future
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LOCKS = {name: ROOT / f"requirements{name}.lock" for name in ("", "-cuda", "-newest")}
LOCK = LOCKS[""].read_text()
sys.path.insert(0, str(ROOT / "envs"))  # modules there import each other


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "envs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PINS = load("conda").pins()


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lock):
    return {canonical(name): version for name, version in load("conda").pins(LOCKS[lock].name).items()}


def direct_needs(*left_out):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [needs for name, needs in project["optional-dependencies"].items() if name not in left_out]
    return map(Requirement, [*project["dependencies"], *(need for needs in extras for need in needs)])


@pytest.mark.parametrize(("lock", "left_out"), [("", ()), ("-cuda", ("train",)), ("-newest", ("train",))])
def test_every_direct_need_is_locked(lock, left_out):
    pinned = pins(lock)
    for need in direct_needs(*left_out):
        assert need.specifier.contains(pinned[canonical(need.name)]), f"{need} is not met by the lock: run `make lock`"


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_hashes_and_no_address(lock):
    text = LOCKS[lock].read_text()
    blocks = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(pins(lock)) > 100
    assert all("--hash=sha256:" in block for block in blocks)
    assert not re.search(r"https?:|--index|--find-links|file:", text)


def test_cuda_differs_from_the_lock_by_what_computes_on_accelerators():
    usual, cuda = pins(""), pins("-cuda")
    assert cuda.pop("tensorflow") == usual.pop("tensorflow-cpu")
    assert {name: cuda.get(name) for name in usual} == usual, "run `make lock`"
    added = set(cuda) - set(usual) - {"jax", "jaxlib"}
    assert all(name.startswith(("nvidia-", "jax-cuda12-")) for name in added), added
    assert set(load("cuda").COMPILER) <= added
    assert {cuda["jax"], cuda["jax-cuda12-plugin"], cuda["jax-cuda12-pjrt"]} == {cuda["jax"]}


def test_newest_has_no_horovod_and_a_later_tensorflow():
    usual, newest = pins(""), pins("-newest")
    assert "horovod" not in newest
    assert Version(newest["tensorflow-cpu"]) > Version(usual["tensorflow-cpu"])


@pytest.mark.parametrize(("name", "lock"), [("hpcai", ""), ("hpcai-cuda", "-cuda")])
def test_conda_environment_is_in_step(name, lock):
    conda, cuda = load("conda"), load("cuda")
    environment = yaml.safe_load((ROOT / f"envs/{name}.yaml").read_text())
    listed = dict(pin.split("==") for pin in environment["dependencies"][-1]["pip"])
    versions = conda.pins(LOCKS[lock].name)
    assert listed == {one: versions[one] for one in versions if one not in {"horovod", *cuda.COMPILER}}, (
        "run `python3.11 envs/conda.py` and commit the result"
    )
    script = ROOT / f"envs/{name}.post-deploy.sh"
    assert script.read_text() == conda.post_deploy(LOCKS[lock].name, versions)
    subprocess.run(["bash", "-n", script], check=True)
    assert ("HOROVOD_GPU_OPERATIONS=NCCL" in script.read_text()) is (lock == "-cuda")


def test_what_runs_is_what_is_locked():
    installed = {canonical(found.name): found.version for found in metadata.distributions()}
    assert {name: installed.get(canonical(name)) for name in PINS} == PINS


def test_lock_is_split_into_packages():
    blocks = load("install").lock_blocks(LOCK, LOCKS[""])
    assert "".join(blocks.values()) == LOCK
    assert {name: block.split()[0] for name, block in blocks.items()} == {
        name: f"{name}=={PINS[name]}" for name in PINS
    }


def test_a_lock_without_the_build_tools_is_refused():
    without_uv = re.sub(r"^uv==.*\n(    .*\n)*", "", LOCK, flags=re.MULTILINE)
    with pytest.raises(SystemExit, match=r"x-newest\.lock does not pin uv"):
        load("install").lock_blocks(without_uv, Path("x-newest.lock"))


@pytest.fixture
def install(monkeypatch):
    """The set-up script on a machine that has all compilers, whatever this one has."""
    module = load("install")
    monkeypatch.setattr(module.shutil, "which", lambda name: f"/usr/bin/{name}")
    return module


def without(install, monkeypatch, program):
    monkeypatch.setattr(install.shutil, "which", lambda name: None if name == program else f"/usr/bin/{name}")


@pytest.mark.parametrize("program", ["g++", "make"])
def test_without_a_compiler_the_environment_has_wheels_alone(tmp_path, install, monkeypatch, program):
    without(install, monkeypatch, program)
    why = install.Environment(tmp_path).why_no_horovod(None)
    assert why.startswith(f"{program} is needed")
    environment = install.Environment(tmp_path)
    environment.note_horovod(why)
    monkeypatch.undo()
    # It stays so when a compiler comes, unless asked.
    assert install.Environment(tmp_path).why_no_horovod(None) == why
    monkeypatch.setattr(install, "missing_compiler", lambda: None)
    assert install.Environment(tmp_path).why_no_horovod("yes") is None


@pytest.mark.parametrize("program", ["g++", "make"])
def test_a_horovod_that_was_asked_for_or_is_there_is_not_lost(tmp_path, install, monkeypatch, program):
    without(install, monkeypatch, program)
    with pytest.raises(SystemExit, match=re.escape(f"{program} is needed")):
        install.Environment(tmp_path).why_no_horovod("yes")
    install.Environment(tmp_path).mark(horovod="of another lock")
    with pytest.raises(SystemExit, match="HOROVOD=no"):
        install.Environment(tmp_path).why_no_horovod(None)
    environment = install.Environment(tmp_path)
    environment.mark(horovod=environment.wanted["horovod"])
    assert install.Environment(tmp_path).why_no_horovod(None) is None


def test_horovod_is_left_out_when_asked(tmp_path, install):
    assert install.Environment(tmp_path).why_no_horovod("no") == "HOROVOD=no"
    assert install.Environment(tmp_path).why_no_horovod(None) is None
    assert "requirements-newest.lock" in install.Environment(tmp_path, "newest").why_no_horovod(None)


def test_a_horovod_that_is_no_longer_wanted_is_removed(tmp_path, install, monkeypatch):
    environment, called = install.Environment(tmp_path), []
    monkeypatch.setattr(environment, "uv", lambda *words: called.append(words))
    environment.mark(horovod="some")
    environment.note_horovod("HOROVOD=no")
    assert called == [("uninstall", "horovod")]
    assert "horovod" not in install.Environment(tmp_path).state
    environment.note_horovod(None)
    assert "without_horovod" not in install.Environment(tmp_path).state


@pytest.mark.parametrize(
    ("words", "lock"),
    [
        ("", None),
        ("--device cuda", "cuda"),
        ("--device cpu", "cpu"),
        ("--lock newest", "newest"),
        ("--lock default", "cpu"),
        ("--lock newest --device cpu", "newest"),
    ],
)
def test_lock_that_is_asked_for(install, words, lock):
    asked = install.parse_arguments(["there", *words.split()])
    assert (asked.venv, asked.lock) == ("there", lock)
    assert lock is None or (ROOT / install.LOCKS[lock]).is_file()


@pytest.mark.parametrize("words", ["--lock newest --device cuda", "--lock newest --horovod yes"])
def test_locks_that_there_are_not(install, words, capsys):
    with pytest.raises(SystemExit):
        install.parse_arguments(words.split())
    assert "newest TensorFlow" in capsys.readouterr().err


def test_the_lock_stays_unless_asked(tmp_path, install):
    assert install.Environment(tmp_path).lock == LOCKS[""]
    install.Environment(tmp_path, "cuda").mark(lock="requirements-cuda.lock")
    assert install.Environment(tmp_path).lock == LOCKS["-cuda"]
    assert install.Environment(tmp_path, "cpu").lock == LOCKS[""]


def test_a_failed_build_with_cuda_leaves_the_other_engine(tmp_path, install):
    environment = install.Environment(tmp_path, "cuda")
    environment.toolkit = load("cuda").Toolkit(13, "")
    failed = Future()
    failed.set_exception(install.SetUpError("Horovod could not be compiled", tmp_path / "horovod.log"))
    assert "horovod.log" in environment.install_horovod(failed, False, must=False)
    with pytest.raises(install.SetUpError):
        environment.install_horovod(failed, False, must=True)
    environment.toolkit = None
    with pytest.raises(install.SetUpError):
        environment.install_horovod(failed, False, must=False)


def test_a_wrong_python_gives_one_sentence(monkeypatch):
    install = load("install")
    monkeypatch.setattr(install, "PYTHON", (3, 99))
    with pytest.raises(SystemExit, match=r"Python 3\.11 .* 3\.11\."):
        install.check_machine(Namespace(mpi=None))


def test_mpi_that_cannot_be_compiled_with_gives_one_sentence(monkeypatch):
    install = load("install")
    monkeypatch.setattr(install.horovod_wheel, "mpi_is_here", lambda: False)
    install.check_machine(Namespace(mpi="no"))
    with pytest.raises(SystemExit, match="libopenmpi-dev"):
        install.check_machine(Namespace(mpi="yes"))


def test_mpi_for_a_finished_environment_on_an_old_driver_gives_one_sentence(tmp_path, monkeypatch):
    install = load("install")
    monkeypatch.setattr(install.horovod_wheel, "mpi_is_here", lambda: True)
    monkeypatch.setattr(install.Environment, "is_usable", lambda _: True)
    monkeypatch.setattr(install.cuda, "site_toolkit", lambda: None)
    monkeypatch.setattr(install.cuda, "driver", lambda: 550)
    environment = install.Environment(tmp_path, "cuda")
    environment.mark(**environment.wanted, lock="requirements-cuda.lock", wheel="without MPI", mpi=False)
    before = (tmp_path / install.STATE).read_text()
    monkeypatch.setattr(sys, "argv", ["install.py", str(tmp_path), "--mpi", "yes"])
    with pytest.raises(SystemExit, match=r"580 .* 550"):
        install.main()
    assert (tmp_path / install.STATE).read_text() == before


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
    if "without_horovod" in state:
        wanted.pop("horovod")
    assert wanted == {part: state[part] for part in wanted}, "call `make env` first: the lock file has changed"
    command = ["python3.11", str(ROOT / "envs/install.py"), str(prefix)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("is up to date")
