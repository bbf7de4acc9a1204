"""The BLAS library, and what it needs on a processor that is newer than itself."""

import os
from pathlib import Path

import pytest

from hpcai.core.processor import processor_facts
from hpcai.machine.hpl import library
from hpcai.machine.hpl.library import CORE_TYPE, WITHOUT_AVX, BlasLibrary, find_blas, newer_kernel

OLD = "libblas.so.3 (OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY Prescott MAX_THREADS=64)"
AVX2, AVX512 = ["sse3", "avx2"], ["sse3", "avx2", "avx512f", "avx512bw"]


@pytest.mark.parametrize(
    ("name", "flags", "kernel"),
    [
        (OLD, AVX512, "SkylakeX"),
        (OLD, AVX2, "Haswell"),
        (OLD, ["sse3"], ""),
        (OLD, [], ""),
        (OLD.replace("Prescott", "Zen"), AVX2, ""),
        ("libblas.so.3 (OpenBLAS 0.3.29 Nehalem)", AVX2, "Haswell"),
        ("libblis.so.4 (BLIS 0.9.0)", AVX512, ""),
        ("libblas.so.3.11.0", AVX512, ""),
    ],
)
def test_the_kernel_of_a_processor_that_openblas_does_not_know(name: str, flags: list[str], kernel: str) -> None:
    assert newer_kernel(name, flags) == kernel


@pytest.fixture
def old_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CORE_TYPE, raising=False)
    monkeypatch.setattr(library, "name_library", lambda _: OLD)
    monkeypatch.setattr(library, "processor_facts", lambda: {"flags": " ".join(AVX512)})


@pytest.mark.usefixtures("old_kernel")
def test_it_is_told_and_its_name_says_so(tmp_path: Path) -> None:
    found = BlasLibrary.at(str(tmp_path / "libblas.so.3"))
    assert dict(found.environment) == {CORE_TYPE: "SkylakeX"}
    assert found.name == f"libblas.so.3, {CORE_TYPE}=SkylakeX", "asked again, by a process that loads it anew"


@pytest.mark.usefixtures("old_kernel")
def test_what_the_user_says_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CORE_TYPE, "Prescott")
    assert BlasLibrary.at("libblas.so.3") == BlasLibrary("libblas.so.3", OLD)


def test_the_library_here_uses_the_vectors_of_this_processor() -> None:
    found = find_blas()
    if found.reason or "OpenBLAS" not in found.name or CORE_TYPE in os.environ:
        pytest.skip("hpcc with OpenBLAS is not installed, or is told which kernel to use")
    if "avx2" in processor_facts().get("flags", "").split():
        assert not WITHOUT_AVX & set(found.name.split())
