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
