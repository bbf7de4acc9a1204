"""The BLAS of an HPL that is not Debian's: known where the linker tells it, and a reason where nobody can."""

import ctypes.util
import shutil
from pathlib import Path

import pytest
from unit.machine.hpl.rate_factory import UPDATE, take_until_timed

from hpcai.machine.hpl import blas_rates
from hpcai.machine.hpl.blas_rates import NO_COMPILER, RatesInTurn
from hpcai.machine.hpl.build import HplBuild
from hpcai.machine.hpl.library import BlasLibrary, find_blas
from hpcai.machine.hpl.linked import NOT_BY_ITSELF, UNKNOWN, blas_of_command
from hpcai.machine.hpl.run import find_hpl_blas
from hpcai.records.files import write_sealed

LIBRARY = ctypes.util.find_library("blas")
SITE = ["srun", "-n", "{processes}", "xhpl"]


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an HPL, a launcher and a linker that lists what this file says on the PATH."""
    lines = tmp_path / "listed.txt"
    for name, text in {"xhpl": "", "srun": "", "apptainer": "", "ldd": f"cat {lines}"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    lines.write_text("")
    return lines


def code_of(blas: BlasLibrary) -> object:
    return getattr(blas.reason, "code", blas.reason)


@pytest.mark.skipif(shutil.which("hpcc") is None, reason="no hpcc")
def test_a_sites_own_program_says_what_it_loads() -> None:
    found = blas_of_command(["srun", "-n", "{processes}", shutil.which("hpcc") or "", "--quiet"])
    assert (found.path, found.reason) == (find_blas().path, "")


@pytest.mark.parametrize("lines", ["", "\tlibm.so.6 => /lib/libm.so.6 (0x1)", "\tlibmkl_rt.so.2 => not found"])
def test_a_static_program_or_a_script_is_not_known(listed: Path, lines: str) -> None:
    listed.write_text(f"{lines}\n")
    assert code_of(blas_of_command(SITE)) == UNKNOWN.code


@pytest.mark.parametrize(
    "words", [["apptainer", "exec", "hpl.sif", "xhpl"], ["srun", "--container-image=nvidia", "xhpl"], ["hpl.sh"]]
)
def test_what_a_container_loads_is_not_known(listed: Path, words: list[str]) -> None:
    listed.write_text(f"\tlibblas.so.3 => {listed} (0x1)\n")
    assert code_of(blas_of_command(words)) == UNKNOWN.code


def test_a_library_that_cannot_be_timed_is_named(listed: Path) -> None:
    listed.write_text(f"\tlibmkl_intel_lp64.so.2 => {listed} (0x1)\n")  # no library at all
    found = find_hpl_blas(SITE, None)
    assert (found.name, code_of(found)) == (listed.name, NOT_BY_ITSELF.code)
    report = RatesInTurn([{"order": 64, "block": 8}], blas=found).report()
    assert report.reason == found.reason
    assert {rate.reason for rate in report.rates} == {found.reason}


@pytest.mark.skipif(LIBRARY is None, reason="no BLAS")
def test_rates_are_of_the_library_that_the_build_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever hpcc would load."""
    found = []
    for path in (str(LIBRARY), ""):
        build = HplBuild(source="hpl.tar.gz", sha256="0", program="/opt/xhpl", library="any", library_path=path)
        write_sealed(build, tmp_path / "hpl_build.json")
        found.append(find_hpl_blas((), tmp_path / "hpl_build.json"))
    assert (found[0].path, found[0].reason) == (LIBRARY, "")
    assert code_of(found[1]) == UNKNOWN.code
    monkeypatch.setattr(blas_rates, "PARTS", (1.0,))
    rates = take_until_timed({"order": 64, "block": 8}, found[0])
    if shutil.which("cc") is None:
        assert (rates.library_path, rates.library, rates.reason) == ("", "", NO_COMPILER())
        return
    assert (rates.library_path, rates.library, rates.reason) == (LIBRARY, found[0].name, "")
    assert {rate.routine for rate in rates.rates if rate.rate_flop_per_s} >= UPDATE


def test_without_a_program_its_library_is_no_reason() -> None:
    assert find_hpl_blas(["/nowhere/xhpl"], None) == BlasLibrary()
