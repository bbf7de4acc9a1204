"""The doctor's report on a site with accelerators: each part present, missing or not needed, and its remedy."""

from importlib import metadata
from pathlib import Path

import pytest
from unit.campaign.result_folders import campaign
from unit.refusals import told

from hpcai.campaign import doctor, gpu_site
from hpcai.campaign.doctor import LACKING, diagnose, problems_of
from hpcai.campaign.gpu_site import MAKE, Part, Wanted, look_at_gpu_site
from hpcai.core.accelerators import Accelerator, Driver

CUDA = {
    "tensorflow": "2.18.1",
    "nvidia-cuda-runtime-cu12": "12.5.82",
    "nvidia-nccl-cu12": "2.21.5",
    "horovod": "0.28.1",
}
DRIVER = Driver("550.54.15", (12, 4))


@pytest.fixture
def site(monkeypatch):
    """A node with a driver and an environment for accelerators; returns what changes it."""

    def there(packages=CUDA, driver=DRIVER, programs=("g++", "srun", "mpirun"), *, nccl=True) -> None:
        def version(name: str) -> str:
            if name not in packages:
                raise metadata.PackageNotFoundError(name)
            return packages[name]

        monkeypatch.setattr(metadata, "version", version)
        monkeypatch.setattr(gpu_site, "find_driver", lambda: driver)
        monkeypatch.setattr(gpu_site, "find_accelerators", lambda: (Accelerator("GPU-a", "one"),))
        monkeypatch.setattr(gpu_site, "find_library", lambda _: None)
        monkeypatch.setattr(gpu_site, "horovod_knows_nccl", lambda: nccl)
        monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}" if name in programs else None)

    there()
    return there


def states(**wanted: object) -> dict[str, str]:
    return {part.name: part.state for part in parts(**wanted)}


def parts(**wanted: object) -> tuple[Part, ...]:
    return look_at_gpu_site(Wanted(**{"engines": frozenset({"horovod"}), **wanted}), {})


def test_a_site_that_lacks_nothing(site) -> None:
    assert set(states().values()) <= {"found", "not needed"}
    assert states()["compiler"] == "not needed"
    assert not any(part.remedy for part in parts())


def test_the_environment_for_processors_alone(site) -> None:
    site({"tensorflow-cpu": "2.18.1", "horovod": "0.28.1"}, nccl=False)
    found = {part.name: part for part in parts()}
    missing = {name for name, part in found.items() if part.state == "missing"}
    assert missing == {"CUDA for the engine", "NCCL", "Horovod with NCCL"}
    assert all(MAKE in found[name].remedy for name in missing)
    alone = states(engines=frozenset({"tensorflow"}))
    assert alone["Horovod with NCCL"] == alone["NCCL"] == "not needed"
    assert states(engines=frozenset({"tensorflow", "jax"}))["NCCL"] == "missing"


@pytest.mark.parametrize(
    ("driver", "runtime", "state"),
    [
        (None, "12.5.82", "missing"),
        (Driver("470.57.02", (11, 4)), "12.5.82", "missing"),
        (Driver("525.60.13", (12, 0)), "12.5.82", "found"),
        (DRIVER, "13.0.96", "missing"),
        (Driver("580.65.06", (13, 0)), "13.0.96", "found"),
        (Driver("450.80.02", (11, 0)), "11.8.89", "found"),
    ],
)
def test_a_driver_is_judged_by_the_runtime_of_the_wheels(site, driver, runtime, state) -> None:
    site({**CUDA, "nvidia-cuda-runtime-cu12": runtime}, driver)
    assert states()["driver"] == state


def test_a_compiler_is_needed_to_compile_horovod_alone(site) -> None:
    site(programs=(), nccl=False)
    assert states()["compiler"] == "missing"
    assert states(engines=frozenset({"tensorflow"}))["compiler"] == "not needed"
    site(programs=("g++",), nccl=False)
    assert states()["compiler"] == "found"  # nvcc comes from wheels


def test_jax_needs_its_plugin(site) -> None:
    jax = frozenset({"jax"})
    assert states(engines=jax)["CUDA for the engine"] == "missing"
    site({**CUDA, "jax-cuda12-plugin": "0.5.3"})
    assert states(engines=jax)["CUDA for the engine"] == "found"


def test_several_nodes_need_a_launcher_that_reaches_them(site) -> None:
    site(programs=())
    assert (states()["launcher"], states(nodes=2)["launcher"], states()["MPI"]) == ("found", "missing", "not needed")
    site(programs=("srun",))
    assert states(nodes=2)["launcher"] == "found"


def test_what_comes_from_an_image_is_not_looked_into(site) -> None:
    site({}, nccl=False)
    found = states(in_image=True)
    assert {found[name] for name in ("CUDA for the engine", "NCCL", "Horovod with NCCL", "compiler")} == {
        "in the image"
    }
    assert found["driver"] == "found"


def test_a_study_says_what_it_wants() -> None:
    wanted = Wanted.of(campaign())
    assert (wanted.engines, wanted.in_image) == (frozenset({"horovod"}), False)
    assert Wanted.of(None).nodes == 1


def test_horovod_tells_by_its_library(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "tensorflow").mkdir()
    library = tmp_path / "tensorflow/mpi_lib.cpython-311.so"
    spec = type("Spec", (), {"origin": str(tmp_path / "__init__.py")})
    monkeypatch.setattr(gpu_site, "find_spec", lambda _: spec)
    for content, known in ((b"MPI_Init", False), (b"\0ncclAllReduce\0", True)):
        library.write_bytes(content)
        assert gpu_site.horovod_knows_nccl() is known
    monkeypatch.setattr(gpu_site, "find_spec", lambda _: None)
    assert not gpu_site.horovod_knows_nccl()


def test_the_doctor_names_what_is_missing_and_looks_only_where_it_is_asked(site, results, monkeypatch) -> None:
    site(driver=None)
    assert diagnose(results).gpu_site == ()
    diagnosis = diagnose(results, gpu=True)
    (problem,) = [one for one in problems_of(diagnosis) if LACKING.find_in(one.what)]
    assert told(problem.what, LACKING)["part"] == "driver"
    assert "hpcai doctor --gpu" in problem.remedy
    of_gpus = campaign()
    device = of_gpus.machine.device.model_copy(update={"kind": "gpu"})
    machine = of_gpus.machine.model_copy(update={"device": device})
    knowledge = doctor.know(results, None)
    with_gpus = type(knowledge)(
        **{**vars(knowledge), "campaign": type(of_gpus)(**{**vars(of_gpus), "machine": machine})}
    )
    monkeypatch.setattr(doctor, "know", lambda *_: with_gpus)
    assert diagnose(results).gpu_site != ()
