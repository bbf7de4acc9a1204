"""The kernel's description of this node's processor."""

from pathlib import Path


def processor_facts() -> dict[str, str]:
    """Return the fields of the first core in ``/proc/cpuinfo``; empty if the file does not exist."""
    try:
        first = Path("/proc/cpuinfo").read_text().split("\n\n", maxsplit=1)[0]
    except OSError:
        return {}
    pairs = (line.split(":", maxsplit=1) for line in first.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def lacks_avx512() -> bool:
    """Return whether this is an x86 processor without AVX-512 for bytes and words, which oneDNN needs for bf16."""
    flags = processor_facts().get("flags", "").split()
    return bool(flags) and "avx512bw" not in flags
