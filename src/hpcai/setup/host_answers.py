"""Parse the output of host programs: processor, accelerators, disks, modules, network."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

SHARED = re.compile(
    r"nfs\d?|lustre|gpfs|mmfs|beegfs|fhgfs|ceph|wekafs|panfs|pvfs2|orangefs|dvs|daos|cifs|smb\w*|afs|9p|virtiofs|fuse.*"
)
LOCAL = re.compile(r"ext[234]|xfs|btrfs|zfs|f2fs|bcachefs")
MEMORY = re.compile(r"tmpfs|ramfs|rootfs")
_MPI = re.compile(r"openmpi|ompi|mpich|mvapich2?|i_?mpi|intel-?(?:oneapi-)?mpi|cray-mpich|hpcx|psmpi|spectrum-mpi")
_MIB = re.compile(r"(\d+)\s*MiB")
_PORT = re.compile(r"^/sys/class/infiniband/([^/]+)/ports/(\d+)/(rate|state):(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Processor:
    """lscpu's description of this host."""

    model: str
    sockets: int
    cores: int
    """All cores, counting one hardware thread each."""
    numa_nodes: int | None


@dataclass(frozen=True)
class Accelerator:
    """One accelerator as reported by nvidia-smi."""

    model: str
    memory_mib: int | None


@dataclass(frozen=True)
class Disk:
    """File system of a folder."""

    kind: str
    target: str
    available_bytes: int

    @property
    def place(self) -> str:
        """``shared``, ``local`` or ``memory`` by file system type; blank if the type does not determine it."""
        for pattern, place in ((SHARED, "shared"), (LOCAL, "local"), (MEMORY, "memory")):
            if pattern.fullmatch(self.kind):
                return place
        return ""


def read_lscpu(text: str) -> Processor | None:
    """Return the processor; None if sockets or cores are not reported."""
    pairs = (line.partition(":") for line in text.splitlines())
    fields = {key.strip().lower(): value.strip() for key, _, value in pairs}
    sockets = _number(fields.get("socket(s)", ""))
    cores = _number(fields.get("core(s) per socket", ""))
    if not sockets or not cores:
        return None
    return Processor(fields.get("model name", ""), sockets, sockets * cores, _number(fields.get("numa node(s)", "")))


def read_memory_mib(text: str) -> int | None:
    """Return the memory [MiB] from ``/proc/meminfo``, which uses kB of 1024 bytes; rounded down."""
    match = re.match(r"MemTotal:\s+(\d+) kB", text)
    return int(match[1]) // 1024 if match else None


def read_nvidia_smi(text: str) -> tuple[Accelerator, ...]:
    """Return the accelerators from lines of ``name, memory, driver``; none for other text."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 3 and re.fullmatch(r"[\d.]+", fields[2]):
            size = _MIB.fullmatch(fields[1])
            found.append(Accelerator(fields[0], int(size[1]) if size else None))
    return tuple(found)


def read_df(text: str) -> tuple[Disk, ...]:
    """Return the file systems in df's output (source, type, size, free, place), in order."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.rsplit(maxsplit=4)
        if len(fields) == 5 and fields[3].isdecimal():
            found.append(Disk(fields[1], fields[4], int(fields[3])))
    return tuple(found)


def read_mpi_modules(text: str) -> tuple[str, ...]:
    """Return the environment modules of MPI libraries, without marks such as ``(default)``."""
    names = (re.sub(r"\([^)]*\)$", "", line.strip()).rstrip("/") for line in text.splitlines())
    return tuple(name for name in names if any(_MPI.fullmatch(part.lower()) for part in PurePosixPath(name).parts))


def read_ports(text: str) -> tuple[tuple[str, str], ...]:
    """Return name and rate of each active InfiniBand port, such as ``200 Gb/sec (4X HDR)``."""
    facts: dict[str, dict[str, str]] = {}
    for device, port, key, value in _PORT.findall(text):
        facts.setdefault(f"{device}/{port}", {})[key] = value.strip()
    return tuple(
        (name, port["rate"]) for name, port in facts.items() if "ACTIVE" in port.get("state", "") and "rate" in port
    )


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
