"""The available launchers: the modules of this folder that declare one."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.discovery import modules_declaring
from hpcai.core.errors import LaunchError
from hpcai.core.programs import find_program
from hpcai.launchers.declaration import Launcher
from hpcai.launchers.ranks import Ranks

if TYPE_CHECKING:
    from hpcai.records.run import RunRecord

PATTERN = "hpcai.launchers.*"
"""Modules that may be loaded, for the digest of a rule (`hpcai.campaign.library_digest`)."""


def _load() -> dict[str, Launcher]:
    modules = modules_declaring("LAUNCHER", PATTERN.removesuffix(".*"), Path(__file__).parent)
    found = {module.rpartition(".")[2]: import_module(module).LAUNCHER for module in modules}
    return dict(sorted(found.items(), key=lambda one: (one[1].of_batch_system, one[0])))


LAUNCHERS: Mapping[str, Launcher] = _load()
"""By name; those of batch systems come last, because their steps may contain another launcher."""


def default_launcher() -> str:
    """Return the default launcher among those whose packages are installed."""
    name = next(name for name, launcher in LAUNCHERS.items() if launcher.default)
    if all(map(find_spec, LAUNCHERS[name].packages)):
        return name
    return next(name for name, launcher in LAUNCHERS.items() if launcher.stands_in)


def find_launcher(name: str) -> Launcher:
    """Return a launcher by name.

    Raises
    ------
    LaunchError
        If there is none of this name.
    """
    if name not in LAUNCHERS:
        raise LaunchError(f"launcher {name!r}: unknown; allowed: {', '.join(LAUNCHERS)} (see profiles/)")
    return LAUNCHERS[name]


def launch_command(launcher: str, ranks: Ranks, program: Sequence[str]) -> list[str]:
    """Return the command line that starts ``program`` once per rank.

    Raises
    ------
    LaunchError
        If the launcher is unknown, not installed, or cannot start this run.
    """
    return [*find_launcher(launcher).command(ranks), *_confined(ranks, program)]


def _confined(ranks: Ranks, program: Sequence[str]) -> list[str]:
    """Restrict a program to its share of a node: the same cores and accelerators on each of its nodes."""
    if not ranks.shares:
        return [*program]
    share = ranks.shares[0]
    visible = ["env", f"CUDA_VISIBLE_DEVICES={','.join(share.accelerators)}"] if share.accelerators else []
    cores = [find_program("taskset"), "--cpu-list", ",".join(map(str, share.cores))] if share.cores else []
    return [*visible, *cores, *program]


def launcher_of(record: "RunRecord") -> str:
    """Return the name of a run's launcher; blank if its command contains none that is known."""
    words = {part.rpartition("/")[2] for part in record.provenance.command}
    return next((name for name, launcher in LAUNCHERS.items() if words.intersection(launcher.programs)), "")


def rank_of(environment: Mapping[str, str]) -> int:
    """Return the rank's number from its launcher's variables; 0 for a program started without a launcher."""
    return _number(environment, [name for one in LAUNCHERS.values() for name in one.rank_variables])


def local_rank_of(environment: Mapping[str, str]) -> int:
    """Return the rank's number on its node from its launcher's variables; 0 for a program without a launcher."""
    return _number(environment, [name for one in LAUNCHERS.values() for name in one.local_rank_variables])


def _number(environment: Mapping[str, str], names: Sequence[str]) -> int:
    return next((int(environment[name]) for name in names if name in environment), 0)
