"""Parsing the output of host programs."""

import pytest

from hpcai.setup import host_answers as read

LSCPU = "Model name:   {model}\nCore(s) per socket:  {cores}\nSocket(s):   {sockets}\nNUMA node(s): 4\n"


def test_cores_are_those_of_all_sockets():
    found = read.read_lscpu(LSCPU.format(model="AMD EPYC 7763", cores=64, sockets=2))
    assert (found.model, found.sockets, found.cores, found.numa_nodes) == ("AMD EPYC 7763", 2, 128, 4)


@pytest.mark.parametrize("text", ["", LSCPU.format(model="Neoverse-V2", cores="-", sockets="-"), "lscpu: failed"])
def test_a_processor_that_is_not_told_is_none(text):
    assert read.read_lscpu(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("NVIDIA A100-SXM4-80GB, 81920 MiB, 535.104.05", [("NVIDIA A100-SXM4-80GB", 81920)]),
        ("NVIDIA GH200 480GB, [N/A], 550.54", [("NVIDIA GH200 480GB", None)]),
        ("No devices were found", []),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver, ..., x", []),
        ("", []),
    ],
)
def test_accelerators(text, found):
    assert [(one.model, one.memory_mib) for one in read.read_nvidia_smi(text)] == found


@pytest.mark.parametrize(
    ("kind", "place"),
    [("nfs4", "shared"), ("lustre", "shared"), ("fuse.sshfs", "shared"), ("gpfs", "shared"), ("beegfs", "shared"),
     ("xfs", "local"), ("ext4", "local"), ("tmpfs", "memory"), ("overlay", ""), ("somefs", "")],
)  # fmt: skip
def test_file_systems(kind, place):
    (disk,) = read.read_df(f"Filesystem Type 1B-blocks Avail Mounted on\nmap auto home {kind} 100 40 /data")
    assert (disk.kind, disk.target, disk.available_bytes, disk.place) == (kind, "/data", 40, place)


def test_modules_of_an_mpi():
    lines = [
        "/apps/all:",
        "OpenMPI/4.1.5-GCC-12.3.0",
        "mpi4py/3.1",
        "openmpi/4.1.1(default)",
        "cray-mpich/8.1/",
        "MPICH",
    ]
    found = ("OpenMPI/4.1.5-GCC-12.3.0", "openmpi/4.1.1", "cray-mpich/8.1", "MPICH")
    assert read.read_mpi_modules("\n".join(lines)) == found


def test_active_ports_alone_have_a_rate():
    rates = ["a/ports/1/rate:200 Gb/sec (4X HDR)", "b/ports/1/rate:10 Gb/sec"]
    states = ["a/ports/1/state:4: ACTIVE", "b/ports/1/state:1: DOWN"]
    text = "\n".join(f"/sys/class/infiniband/{line}" for line in [*rates, *states])
    assert read.read_ports(text) == (("a/1", "200 Gb/sec (4X HDR)"),)


def test_memory():
    assert read.read_memory_mib("MemTotal:       131832500 kB") == 128742
    assert read.read_memory_mib("") is None
