"""Accelerators as the driver lists them, faked: nvidia-smi on the PATH, and NVML."""

import sys
from types import SimpleNamespace

import pytest

from hpcai.core.accelerators import (
    Accelerator,
    Driver,
    find_accelerators,
    find_driver,
    model_of,
    read_driver,
    read_list,
    uuids_of,
    visible_names,
)

FIRST, SECOND = (f"GPU-{digit * 8}-0000-1111-2222-333333333333" for digit in "ab")
PART, OTHER_PART = (f"MIG-{digit * 8}-0000-1111-2222-333333333333" for digit in "cd")
LIST = f"""\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: {FIRST})
GPU 1: NVIDIA A100-SXM4-40GB (UUID: {SECOND})
  MIG 3g.20gb     Device  0: (UUID: {PART})
  MIG 3g.20gb     Device  1: (UUID: {OTHER_PART})
"""
WHOLE = (Accelerator(FIRST, "one"), Accelerator(SECOND, "two"))
DIVIDED = (Accelerator(FIRST, "one"), Accelerator(SECOND, "two", (PART, OTHER_PART)))
HEADING = "| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4     |"


class Nvml:
    """NVML of a node with two GPUs, of which cgroups may hide the first and MIG divides the second."""

    class NVMLError(Exception):
        pass

    class NVMLError_NoPermission(NVMLError):
        pass

    class NVMLError_NotFound(NVMLError):
        pass

    class NVMLError_NotSupported(NVMLError):
        pass

    def __init__(self, *, hidden: bool = False, absent: bool = False) -> None:
        self.hidden, self.absent = hidden, absent
        self.nvmlDeviceGetCount = lambda: 2
        self.nvmlDeviceGetUUID = lambda handle: handle.uuid
        self.nvmlDeviceGetName = lambda handle: handle.name
        self.nvmlSystemGetDriverVersion = lambda: "550.54.15"
        self.nvmlSystemGetCudaDriverVersion = lambda: 12040

    def nvmlInit(self) -> None:
        if self.absent:
            raise self.NVMLError

    def nvmlDeviceGetHandleByIndex(self, index: int) -> SimpleNamespace:
        if index == 0 and self.hidden:
            raise self.NVMLError_NoPermission
        return SimpleNamespace(uuid=(FIRST, SECOND)[index], name=("one", "two")[index])

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: SimpleNamespace) -> int:
        if handle.uuid == FIRST:
            raise self.NVMLError_NotSupported
        return 3

    def nvmlDeviceGetMigDeviceHandleByIndex(self, _: object, index: int) -> SimpleNamespace:
        if index == 2:
            raise self.NVMLError_NotFound
        return SimpleNamespace(uuid=(PART, OTHER_PART)[index])


def test_nvml_lists_what_cgroups_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    assert find_accelerators() == DIVIDED
    assert find_driver() == Driver("550.54.15", (12, 4))
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(hidden=True))
    assert find_accelerators() == DIVIDED[1:]


def test_without_nvml_nvidia_smi_answers(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(absent=True))
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert (find_accelerators(), find_driver()) == ((), None)
    program.write_text(f"#!/bin/sh\n[ \"$1\" = -L ] && exec cat <<'X'\n{LIST}X\necho '{HEADING}'\n")
    program.chmod(0o755)
    assert [gpu.uuid for gpu in find_accelerators()] == [FIRST, SECOND]
    assert find_driver() == Driver("550.54.15", (12, 4))
    program.write_text("#!/bin/sh\necho 'GPU 0: one (UUID: GPU-0)'\nexit 9\n")
    assert (find_accelerators(), find_driver()) == ((), None)


def test_lists_and_headings() -> None:
    assert [gpu.parts for gpu in read_list(LIST)] == [(), (PART, OTHER_PART)]
    assert read_list("No devices found.\n") == ()
    assert read_driver("N/A") is None


@pytest.mark.parametrize(
    ("visible", "listed", "expected"),
    [
        (None, WHOLE, [FIRST, SECOND]),
        ("1,0", WHOLE, [SECOND, FIRST]),
        ("1", WHOLE[:1], [""]),  # cgroups count from 0, this variable does not: nobody knows
        ("0", WHOLE[1:], [SECOND]),
        (SECOND, WHOLE, [SECOND]),
        ("GPU-b", WHOLE, [SECOND]),
        ("GPU-", WHOLE, [""]),
        (SECOND, (), [SECOND]),
        ("GPU-b", (), [""]),
        (OTHER_PART, DIVIDED, [OTHER_PART]),
        ("MIG-d", DIVIDED, [OTHER_PART]),
        (PART, (), [PART]),
        ("1", DIVIDED, [""]),  # of two instances
        ("0", (Accelerator(SECOND, "two", (PART,)),), [PART]),
        ("NoDevFiles", WHOLE, [""]),
    ],
)
def test_visible_accelerators_have_the_uuids_of_the_list(visible, listed, expected) -> None:
    assert uuids_of(visible_names({"CUDA_VISIBLE_DEVICES": visible} if visible else {}), listed) == expected


def test_amd_has_variables_of_its_own() -> None:
    assert visible_names({"ROCR_VISIBLE_DEVICES": "2, 3"}) == ["2", "3"]
    assert visible_names({"CUDA_VISIBLE_DEVICES": ""}) is None


def test_a_part_has_the_model_of_its_gpu():
    assert [model_of(uuid, DIVIDED) for uuid in (FIRST, OTHER_PART, "", "GPU-unknown")] == ["one", "two", "", ""]
