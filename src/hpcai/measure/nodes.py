"""Tasks on every node of a run, done by one process per node: `python -m hpcai.measure.nodes prepare ...`.

Before a run: drop the data's pages, remove leftovers of failed runs from the scratch folder, check that it is
writable. Afterwards: end remaining processes and remove the run's scratch folder. One Slurm step reaches other nodes.
"""

import argparse
import logging
import os
import socket
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hpcai.config.machine import this_node
from hpcai.core.errors import HpcaiError, StagingError
from hpcai.core.messages import Message, at
from hpcai.data.stage_folder import announce_stage, clean_stage, nodes_here, own_stage, sweep_stages
from hpcai.launchers.ranks import Ranks, hosts_of
from hpcai.measure.page_cache import drop_page_cache
from hpcai.measure.watch import end_marked_processes, end_orphans
from hpcai.slurm.allocation import find_allocation
from hpcai.slurm.job import down_nodes
from hpcai.slurm.step import step_command

PageCache = Literal["dropped", "not_permitted", "kept"]
"""State of the data in the nodes' page caches; kept: a node was not reached, or no drop was requested."""
PREPARE_LIMIT_S = 600.0
CLEAN_LIMIT_S = 120.0
END_LIMIT_S = 10.0
MOST_NAMES = 10
LONGEST_PROBLEM = 300
"""srun only passes short lines on whole."""
logger = logging.getLogger(__name__)
ENDED_LEFT = Message("nodes.ended_left", "ended processes {processes}, which {left_by} had left")
NOT_CLEANED = Message("nodes.not_cleaned", "not cleaned everywhere, the next run there will do it: {problem}")
NO_ANSWER = Message("nodes.no_answer", "no answer from {nodes}: the step {ending}: {words}")
NOT_REACHED = Message("nodes.not_reached", "{launcher} without a job of Slurm: other nodes than {host} are not reached")
DATA_GONE = Message("nodes.data_gone", "cannot be read ({reason}), expected a file of the data")
ENDED_WITH = Message("nodes.ended_with", "ended with status {status}")
ENDED_AFTER = Message("nodes.ended_after", "was ended after {limit_s:g} s")


class NodeFacts(BaseModel):
    """Report of one node before or after a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node: str = Field(description="Name as Slurm knows it.")
    hostname: str
    cores: int = Field(ge=1, description="Cores that may be used.")
    memory_bytes: int = Field(ge=1, description="Main memory of the node.")
    page_cache: Literal["dropped", "not_permitted"] | None = Field(description="None: not asked for.")
    free_bytes: int | None = Field(
        default=None, ge=0, description="Free space where scratch lies; None: it cannot be written."
    )
    block_bytes: int | None = Field(default=None, ge=1, description="Allocation unit of the file system there.")
    nodes_here: int = Field(
        default=1,
        ge=1,
        description="Nodes of the run that share the scratch folder, as seen by this node at that time.",
    )
    swept: int = Field(ge=0, description="Staging folders that broken runs had left behind and that were removed.")
    swept_names: tuple[str, ...] = Field(description="The first of them.")
    ended: tuple[int, ...] = Field(
        description="Remaining processes that were ended: of broken runs before a run, of the run itself after it."
    )
    problem: str = Field(description="Blank: none.")


class NodesReport(BaseModel):
    """Reports of all nodes of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    page_cache: PageCache = Field(
        description="dropped: every node forgot all of the data; kept: a node was not reached."
    )
    nodes: tuple[NodeFacts, ...] = Field(description="Those that answered, by name.")
    problem: str = Field(description="Why nodes did not answer; blank if all did.")

    @property
    def share_scratch(self) -> int:
        """Largest number of nodes that share one scratch folder: the last to create its folder there saw them all."""
        return max((facts.nodes_here for facts in self.nodes), default=1)


_Answers = tuple[tuple[NodeFacts, ...], str, tuple[str, ...]]
"""Result of a task: answers of nodes, why some are missing, and which of the nodes asked did not answer."""


def prepare_nodes(launcher: str, ranks: Ranks, scratch: Path, files: Sequence[Path]) -> NodesReport:
    """Prepare every node of a run, and report what was found; a node without an answer is not an error.

    Parameters
    ----------
    launcher
        Launcher of the ranks.
    ranks
        Ranks of the run, or of all instances of a weak-scaling group together.
    scratch
        Scratch folder of the run; leftovers of failed runs next to it are removed. With several nodes, each creates its
        own subfolder, which reveals nodes that share the folder.
    files
        The run's data, on storage shared by all nodes.
    """
    listed = zlib.compress("\0".join(map(str, files)).encode())
    task = ["prepare", "--scratch", str(scratch), *(["--announce"] if ranks.nodes > 1 else [])]
    nodes, problem, _ = _on_every_node(launcher, ranks, task, listed, PREPARE_LIMIT_S)
    for facts in nodes:
        if facts.problem:
            logger.warning("%s: %s", facts.node, facts.problem)
        if facts.ended:
            logger.warning("%s: %s", facts.node, ENDED_LEFT(processes=facts.ended, left_by="broken runs"))
        if facts.swept:
            logger.warning("%s: removed %d staging folders of broken runs", facts.node, facts.swept)
    if problem:
        logger.warning("%s: %s", ranks.name, problem)
        return NodesReport(page_cache="kept", nodes=nodes, problem=problem)
    cold = all(facts.page_cache == "dropped" for facts in nodes)
    return NodesReport(page_cache="dropped" if cold else "not_permitted", nodes=nodes, problem="")


def clean_nodes(launcher: str, ranks: Ranks, scratch: Path, attempt: str, *others: Path) -> tuple[str, ...]:
    """End all remaining processes of an attempt on any node and remove its scratch folders; never an error.

    The next run on an unreachable node cleans it up.

    Returns
    -------
    tuple of str
        The nodes that were asked but did not answer.
    """
    task = ["clean", "--scratch", *map(str, (scratch, *others)), "--attempt", attempt]
    nodes, problem, silent = _on_every_node(launcher, ranks, task, b"", CLEAN_LIMIT_S)
    for facts in nodes:
        if facts.problem:
            logger.warning("%s: %s", facts.node, facts.problem)
        if facts.ended:
            logger.warning("%s: %s", facts.node, ENDED_LEFT(processes=facts.ended, left_by=f"attempt {attempt}"))
    if problem:
        logger.warning("%s: %s", ranks.name, NOT_CLEANED(problem=problem))
    if this_node() in silent:
        # This node is alive, so the step is at fault; Slurm's report on the others still counts.
        return tuple(down_nodes(",".join(silent)))
    return silent


def _on_every_node(launcher: str, ranks: Ranks, task: list[str], listed: bytes, limit_s: float) -> _Answers:
    """Run a task on every node of a run; return the answers, why some are missing, and of which nodes."""
    try:
        if find_allocation() is None:
            only = NOT_REACHED(launcher=launcher, host=socket.gethostname())
            return (_do(task, listed),), only if ranks.nodes > 1 else "", ()
        hosts = tuple(dict.fromkeys(hosts_of(ranks)))
        if len(hosts) == 1 and (not ranks.shares or hosts[0] == this_node()):
            return (_do(task, listed),), "", ()
        return _by_a_step(hosts, task, listed, limit_s)
    except HpcaiError as error:
        return (), str(error), ()
    except OSError as error:
        return (), f"the nodes cannot be asked: {error}", ()


def _by_a_step(hosts: Sequence[str], task: list[str], listed: bytes, limit_s: float) -> _Answers:
    # A failing node must not stop the others, and there are no ranks that could wait for each other.
    alone = ["--kill-on-bad-exit=0", "--wait=0", "--mpi=none"]
    command = [*step_command(hosts, 1), *alone, sys.executable, "-m", "hpcai.measure.nodes", *task]
    output, errors, ending = _run_step(command, listed, limit_s)
    found = {facts.node: facts for facts in map(_read_answer, output.splitlines()) if facts is not None}
    missing = [host for host in hosts if host not in found]
    nodes = tuple(found[host] for host in hosts if host in found)
    if not missing:
        return nodes, "", ()
    words = errors.strip().splitlines()
    problem = NO_ANSWER(nodes=", ".join(missing), ending=ending, words=words[-1] if words else "no output")
    return nodes, problem, tuple(missing)


def _run_step(command: list[str], listed: bytes, limit_s: float) -> tuple[str, str, str]:
    """Run a step; return its output, its errors and how it ended. The step has always ended on return."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = process.communicate(listed, timeout=limit_s)
        ending = ENDED_WITH(status=process.returncode)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            output, errors = process.communicate(timeout=END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
        ending = ENDED_AFTER(limit_s=limit_s)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return output.decode(errors="replace"), errors.decode(errors="replace"), ending


def _read_answer(line: str) -> NodeFacts | None:
    """Parse a node's answer; None for any other line."""
    try:
        return NodeFacts.model_validate_json(line)
    except ValidationError:
        return None


def _do(task: list[str], listed: bytes) -> NodeFacts:
    """Run a task on this node."""
    options = _parse(task)
    if options.task == "clean":
        return _clean(options.scratch, options.attempt)
    files = [Path(name) for name in zlib.decompress(listed).decode().split("\0") if name]
    return _prepare(options.scratch[0], files, announce=options.announce)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m hpcai.measure.nodes", description="One node before or after a run."
    )
    parser.add_argument("task", choices=("prepare", "clean"), help="prepare reads the data's files from standard input")
    parser.add_argument("--scratch", type=Path, nargs="+", required=True, help="folder of the run's scratch")
    parser.add_argument("--announce", action="store_true", help="tell other nodes that see the same scratch")
    parser.add_argument("--attempt", default="", help="for clean: what marks the processes of the run")
    return parser.parse_args(arguments)


def _prepare(scratch: Path, files: Sequence[Path], *, announce: bool) -> NodeFacts:
    # First, because remaining processes would affect the numbers of the next run.
    ended = end_orphans()
    swept = sweep_stages(scratch.parent)
    problems: list[str] = []
    room: dict[str, int] = {}
    page_cache: Literal["dropped", "not_permitted"] = "not_permitted"
    try:
        room = _room(scratch, announce=announce)
    except OSError as error:
        problems.append(f"{scratch.parent}: cannot be written ({error.strerror}); correct storage.node_local")
    try:
        page_cache = drop_page_cache(files)
    except OSError as error:
        problems.append(at(str(error.filename), DATA_GONE(reason=error.strerror)))
    return _facts(page_cache, room, swept, ended, "; ".join(problems))


def _clean(scratches: Sequence[Path], attempt: str) -> NodeFacts:
    problems: list[str] = []
    ended: list[int] = []
    try:
        ended = end_marked_processes(attempt)
    except psutil.Error as error:
        problems.append(f"processes of attempt {attempt} may be left: {error}")
    for scratch in scratches:
        try:
            clean_stage(own_stage(scratch))
        except StagingError as error:
            problems.append(str(error))
    return _facts(ended=ended, problem="; ".join(problems))


def _room(scratch: Path, *, announce: bool) -> dict[str, int]:
    """Return facts about the scratch folder, after a file was written to it."""
    folder = scratch.parent
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"x")
        file.flush()
    if announce:
        announce_stage(scratch)
    space = os.statvfs(folder)
    room = {"free_bytes": space.f_bavail * space.f_frsize, "block_bytes": space.f_frsize}
    return room | {"nodes_here": nodes_here(scratch)} if announce else room


def _facts(
    page_cache: Literal["dropped", "not_permitted"] | None = None,
    room: Mapping[str, int] | None = None,
    swept: Sequence[str] = (),
    ended: Sequence[int] = (),
    problem: str = "",
) -> NodeFacts:
    return NodeFacts(
        node=this_node(),
        hostname=socket.gethostname(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        page_cache=page_cache,
        **(room or {}),
        swept=len(swept),
        swept_names=tuple(swept[:MOST_NAMES]),
        ended=tuple(ended[:MOST_NAMES]),
        problem=problem[:LONGEST_PROBLEM],
    )


def main() -> None:
    """Run one task on this node and print the answer as one line of JSON."""
    logging.basicConfig(level=logging.WARNING)
    task = sys.argv[1:]
    listed = sys.stdin.buffer.read() if task[:1] == ["prepare"] else b""
    print(_do(task, listed).model_dump_json(), flush=True)


if __name__ == "__main__":
    main()
