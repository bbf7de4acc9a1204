"""The command ``hpcai init``: create a folder with a study that is ready to run."""

import os
import shlex
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hpcai.core.checkout import source_root
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message
from hpcai.core.units import to_si
from hpcai.setup.ask import Answers, ask_here, fact_of
from hpcai.setup.files import open_gaps, study_files
from hpcai.setup.machine_values import (
    Where,
    plain_name,
    renamed,
    values_of_any,
    values_of_host,
    values_of_partition,
)
from hpcai.setup.partition import Partition, choose_partition
from hpcai.setup.profile_values import RUN_S, values_of_profile
from hpcai.setup.site import Site, StudyValues, Value
from hpcai.setup.slurm_answers import read_nodes

NO_SLURM = Message(
    "setup.no_slurm", "--account: found {account!r}, but sinfo reports no partitions here, which an account would use"
)
SLURM_QUESTIONS = ("sinfo", "partitions", "config", "nodes", "associations", "user", "qos", "mpi_types")


def init(folder: Path, *, here: bool = False, partition: str = "", account: str = "", machine: str = "") -> str:
    """Write a study into a new folder; return what was written, what is open, and what to do next.

    Parameters
    ----------
    folder
        The new folder; it may exist if it is empty.
    here
        Query the machine first: on a login node, inside an allocation, or on a machine without Slurm.
    partition, account
        Slurm partition and account, where there are several; blank: Slurm's default.
    machine
        Name of the machine file; blank: derived from the cluster, partition or host.

    Raises
    ------
    ConfigError
        If the folder is not empty, the library is not a checkout, or the partition cannot be used.
    """
    if not here and (partition or account):
        raise ConfigError("--partition, --account: only allowed with --here, which asks the local Slurm")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: not empty, expected a new or empty folder; choose another one")
    checkout = source_root()
    if checkout is None:
        raise ConfigError(
            "hpcai: found an installed package, expected a checkout with its workflow; clone it, `make env` there"
        )
    site = site_of(ask_here(_nearest(folder)), partition, account) if here else _any_site()
    site = replace(site, machine=renamed(site.machine, machine))
    _write(folder, site, checkout)
    return _said(folder, site)


def site_of(
    answers: Answers,
    partition: str = "",
    account: str = "",
    environment: Mapping[str, str] = os.environ,
) -> Site:
    """Derive a machine's values from answers.

    Parameters
    ----------
    answers
        Answers of this host, or recorded ones.
    partition, account
        As for `init`.
    environment
        Environment of the process; inside an allocation, its partition is used. SLURMD_NODENAME, which steps and batch
        scripts have, names this host: it is described if it is one of the nodes to measure on.

    Raises
    ------
    ConfigError
        If a partition or an account is asked for that cannot be used here.
    """
    # A container, for example, may run in a job while no Slurm command answers.
    own = environment.get("SLURM_JOB_PARTITION", "") if answers["sinfo"].text else ""
    chosen = choose_partition(answers, partition or own)
    if chosen is None and account:
        raise ConfigError(NO_SLURM(account=account))
    if chosen is None:
        machine = values_of_host(answers, socket.gethostname().partition(".")[0])
        return Site(machine, StudyValues(Value(RUN_S, "chosen")), None, _silent(answers, slurm=False))
    machine = values_of_partition(answers, chosen, _where(answers, chosen, environment), account)
    memory_mib = int(to_si(str(machine.memory_bytes.value), "byte")) // 2**20
    profile, study = values_of_profile(answers, chosen, account, memory_mib)
    return Site(machine, study, profile, _silent(answers, slurm=True))


def _where(answers: Answers, chosen: Partition, environment: Mapping[str, str]) -> Where:
    """Return whether this host is one of the chosen nodes; the shell of salloc usually stays on the login node."""
    name = environment.get("SLURMD_NODENAME", "")
    return "job" if chosen.has_node(fact_of(answers, "nodes", read_nodes).get(name, {})) else "login"


def _silent(answers: Answers, *, slurm: bool) -> tuple[tuple[str, str], ...]:
    # Without Slurm none of its programs answers: one line is enough.
    asked = [answer for name, answer in answers.items() if slurm or name not in SLURM_QUESTIONS]
    return tuple((answer.command, answer.silence) for answer in asked if answer.silence)


def _any_site() -> Site:
    return Site(values_of_any(), StudyValues(Value(RUN_S, "chosen")))


def _nearest(folder: Path) -> Path:
    """Return the closest existing parent folder of the study."""
    whole = folder.absolute()
    return next(path for path in (whole, *whole.parents) if path.is_dir())


def _write(folder: Path, site: Site, checkout: Path) -> None:
    """Write all files to a temporary folder next to the target, then move them at once."""
    place_of_all = folder.resolve()
    place_of_all.parent.mkdir(parents=True, exist_ok=True)
    name = plain_name(place_of_all.name, "study")
    with tempfile.TemporaryDirectory(prefix=".hpcai-init.", dir=place_of_all.parent) as place:
        whole = Path(place) / "study"
        for path, text in study_files(site, name, checkout):
            file = whole / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        if not place_of_all.exists():
            whole.rename(place_of_all)
            return
        # A shell may be inside the empty folder, so keep that folder.
        for part in whole.iterdir():
            part.rename(place_of_all / part.name)


def _said(folder: Path, site: Site) -> str:
    profile = " --profile profiles/slurm" if site.profile else ""
    gaps = open_gaps(sorted([*folder.glob("config/machines/*.yaml"), *folder.glob("profiles/slurm/*.yaml")]))
    return "\n".join(
        [
            f"{folder}: a study of machine {site.machine.name}, ready to run",
            *gaps,
            f"next: cd {shlex.quote(str(folder))} && hpcai check config/study.yaml{profile} && hpcai run{profile}",
        ]
    )
