"""What compiles Horovod with NCCL: which compiler is found, what it is refused for, what a wheel is kept under."""

import importlib.util
import sys
from pathlib import Path

import pytest

ENVS = Path(__file__).parents[2] / "envs"
NVCC = """\
#!/bin/sh
case "$1" in
--version) echo "Cuda compilation tools, release {release}, V{release}.88" ;;
*) echo "#\\$ TOP={home}/bin/.." >&2 ;;
esac
"""
DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}.54.15  Tue Mar 12 22:28:08 UTC 2024\n"


@pytest.fixture
def cuda(monkeypatch, tmp_path):
    """The module on a machine without CUDA and without a driver."""
    monkeypatch.syspath_prepend(ENVS)
    spec = importlib.util.spec_from_file_location("cuda", ENVS / "cuda.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "cuda", module)
    spec.loader.exec_module(module)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("HOROVOD_CUDA_HOME", raising=False)
    monkeypatch.setattr(module, "DRIVER", tmp_path / "version")
    return module


def toolkit_at(home, release):
    (home / "bin").mkdir(parents=True)
    nvcc = home / "bin/nvcc"
    nvcc.write_text(NVCC.format(release=release, home=home))
    nvcc.chmod(0o755)
    return home


def test_the_wheels_compile_where_a_site_has_no_nvcc(cuda):
    found = cuda.find_toolkit("pins of the compiler")
    assert (found.release, found.identity, found.home) == (13, "pins of the compiler", None)


@pytest.mark.parametrize("script", [False, True], ids=["itself", "called by a script elsewhere"])
def test_a_loaded_module_comes_first(cuda, tmp_path, monkeypatch, script):
    home, place = toolkit_at(tmp_path / "cuda-12.5", "12.5"), tmp_path / "cuda-12.5/bin"
    if script:
        place = tmp_path / "programs"
        place.mkdir()
        (place / "nvcc").write_text(f'#!/bin/sh\nexec {home}/bin/nvcc "$@"\n')
        (place / "nvcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    found = cuda.find_toolkit("pins")
    assert (found.release, found.home) == (12, home)
    assert "12.5" in found.identity
    assert cuda.settings(found)["HOROVOD_BUILD_CUDA_CC_LIST"].startswith("70,")


def test_a_toolkit_that_is_named_comes_before_the_path(cuda, tmp_path, monkeypatch):
    named, other = toolkit_at(tmp_path / "named", "12.8"), toolkit_at(tmp_path / "other", "12.2")
    monkeypatch.setenv("PATH", f"{other}/bin:/usr/bin:/bin")
    monkeypatch.setenv("HOROVOD_CUDA_HOME", str(named))
    assert cuda.find_toolkit("pins").home == named


def test_an_old_toolkit_of_a_site_is_not_used(cuda, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{toolkit_at(tmp_path / 'old', '11.8')}/bin:/usr/bin:/bin")
    assert cuda.find_toolkit("pins").home is None


@pytest.mark.parametrize(("driver", "usable"), [(580, True), (550, False)])
def test_an_old_driver_refuses_the_compiler_of_the_wheels(cuda, driver, usable):
    cuda.DRIVER.write_text(DRIVER.format(version=driver))
    assert cuda.driver() == driver
    if usable:
        assert cuda.find_toolkit("pins").release == 13
        return
    with pytest.raises(cuda.UnusableError, match=r"580 .* 550"):
        cuda.find_toolkit("pins")


def test_an_old_driver_takes_a_module_of_cuda_12(cuda, tmp_path, monkeypatch):
    cuda.DRIVER.write_text(DRIVER.format(version=550))
    monkeypatch.setenv("PATH", f"{toolkit_at(tmp_path / 'cuda', '12.5')}/bin:/usr/bin:/bin")
    assert cuda.find_toolkit("pins").release == 12


def test_a_wheel_is_kept_for_the_compiler_of_cuda(cuda, monkeypatch):
    spec = importlib.util.spec_from_file_location("horovod_wheel", ENVS / "horovod_wheel.py")
    wheels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wheels)
    monkeypatch.setattr(wheels, "output", lambda command: " ".join([*command, "12.2"]))
    monkeypatch.delenv("HOROVOD_BUILD_CUDA_CC_LIST", raising=False)
    kits = [None, cuda.Toolkit(13, "a"), cuda.Toolkit(13, "b"), cuda.Toolkit(12, "a")]
    keys = [wheels.wheel_key("lock", False, kit) for kit in kits]
    assert len(set(keys)) == len(kits)
    # Where it lies is no part of the binary.
    assert wheels.wheel_key("lock", False, cuda.Toolkit(13, "a", Path("/opt/cuda"))) == keys[1]
    assert wheels.wheel_key("lock", False) == keys[0]
    monkeypatch.setenv("HOROVOD_BUILD_CUDA_CC_LIST", "90")
    assert wheels.wheel_key("lock", False, kits[1]) != keys[1]


def test_nccl_of_the_wheel_has_the_name_that_a_linker_looks_for(cuda, tmp_path):
    wheel = tmp_path / "venv/lib/python3.11/site-packages/nvidia/nccl"
    for folder in ("lib", "include"):
        (wheel / folder).mkdir(parents=True)
    (wheel / "lib/libnccl.so.2").write_bytes(b"library")
    (wheel / "include/nccl.h").write_text("")
    cuda.link_nccl(tmp_path / "venv", tmp_path / "nccl")
    assert (tmp_path / "nccl/lib/libnccl.so").read_bytes() == b"library"
    assert (tmp_path / "nccl/include/nccl.h").exists()
    places = cuda.places(tmp_path / "cu13", tmp_path / "nccl")
    assert places["PATH"].startswith(f"{tmp_path}/cu13/bin:")
    assert places["HOROVOD_NCCL_HOME"] == str(tmp_path / "nccl")
