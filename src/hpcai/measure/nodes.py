"""Tasks on every node of a run, done by one process per node: `python -m hpcai.measure.nodes prepare ...`.

Before a run: drop the data's pages, remove leftovers of failed runs from the scratch folder, check that it is
writable. Afterwards: end remaining processes and remove the run's scratch folder. One Slurm step reaches other nodes.
"""

import argparse
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hpcai.config.machine import this_node
from hpcai.core.errors import HpcaiError, StagingError
from hpcai.core.messages import Message, at
from hpcai.data.stage_folder import announce_stage, clean_stage, nodes_here, own_stage, sweep_stages
from hpcai.launchers.ranks import Ranks, are_here, hosts_of
from hpcai.measure.page_cache import drop_page_cache
from hpcai.measure.watch import end_marked_processes, end_orphans
from hpcai.slurm.allocation import find_allocation
from hpcai.slurm.job import down_nodes
from hpcai.slurm.step import step_command

PageCache = Literal["dropped", "not_permitted", "kept"]
"""State of the data in the nodes' page caches; kept: a node was not reached or took too long, or none was asked to."""
PREPARE_LIMIT_S = 600.0
DROP_LIMIT_S = 240.0
"""Time for a node to drop its pages [s]: all nodes open all files of the data at once, and preparing has other work."""
CLEAN_LIMIT_S = 120.0
END_LIMIT_S = 10.0
REMOVED_AT_ONCE = 8
"""Folders that a node removes at the same time: those of all its instances must go within `CLEAN_LIMIT_S`."""
MOST_NAMES = 10
LONGEST_PROBLEM = 300
"""srun only passes short lines on whole."""
logger = logging.getLogger(__name__)
ENDED_LEFT = Message("nodes.ended_left", "ended processes {processes}, which {left_by} had left")
NOT_CLEANED = Message("nodes.not_cleaned", "not cleaned everywhere, the next run there will do it: {problem}")
NO_ANSWER = Message("nodes.no_answer", "no answer from {nodes}: the step {ending}: {words}")
NOT_REACHED = Message("nodes.not_reached", "{launcher} without a job of Slurm: other nodes than {host} are not reached")
NOT_DROPPED = Message(
    "nodes.not_dropped",
    "dropping {files} files from the page cache took longer than {limit_s:g} s and was left unfinished, so that the "
    "data may be warm",
)
ONLY_SLOW = Message(
    "nodes.only_slow",
    "cleaning takes more than {limit_s:g} s on {nodes}; Slurm reports no failure, so they do not count as lost",
)
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
    page_cache: PageCache | None = Field(description="None: not asked for; kept: it took too long.")
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
        description="dropped: every node forgot all of the data; kept: a node was not reached, or took too long."
    )
    nodes: tuple[NodeFacts, ...] = Field(description="Those that answered, by name.")
    problem: str = Field(description="Why nodes did not answer; blank if all did.")

    @property
    def share_scratch(self) -> int:
        """Largest number of nodes that share one scratch folder: the last to create its folder there saw them all."""
        return max((facts.nodes_here for facts in self.nodes), default=1)


@dataclass(frozen=True)
class _Answers:
    """Result of a task: answers of nodes, why some are missing, and which of the nodes asked did not answer."""

    nodes: tuple[NodeFacts, ...] = ()
    problem: str = ""
    silent: tuple[str, ...] = ()
    cut: bool = False
    """Whether the step was ended at its time limit: silent nodes may only be slow."""


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
    found = _on_every_node(launcher, ranks, task, listed, PREPARE_LIMIT_S)
    _warn(found.nodes, "broken runs")
    for facts in found.nodes:
        if facts.swept:
            logger.warning("%s: removed %d staging folders of broken runs", facts.node, facts.swept)
    if found.problem:
        logger.warning("%s: %s", ranks.name, found.problem)
    states = {facts.page_cache for facts in found.nodes}
    page_cache: PageCache = "dropped" if states == {"dropped"} else "not_permitted"
    if found.problem or "kept" in states:
        page_cache = "kept"
    return NodesReport(page_cache=page_cache, nodes=found.nodes, problem=found.problem)


def clean_nodes(launcher: str, ranks: Ranks, scratches: Sequence[Path], attempts: Sequence[str]) -> tuple[str, ...]:
    """End all remaining processes of attempts on any node and remove their scratch folders; never an error.

    One step cleans all nodes: hundreds of instances must not wait for as many steps before they are published. The next
    run on an unreachable node cleans it up.

    Parameters
    ----------
    launcher
        Launcher of the ranks.
    ranks
        Ranks of the run, or of all instances of a weak-scaling group together.
    scratches
        Scratch folders of all the runs; a node ignores those that it does not have.
    attempts
        Names of their attempts.

    Returns
    -------
    tuple of str
        The nodes that were asked and are lost: their step failed, or Slurm reports them as failed.
    """
    listed = zlib.compress(json.dumps({"scratches": [*map(str, scratches)], "attempts": [*attempts]}).encode())
    found = _on_every_node(launcher, ranks, ["clean"], listed, CLEAN_LIMIT_S)
    left_by = f"attempt {attempts[0]}" if len(attempts) == 1 else f"the {len(attempts)} attempts of {ranks.name}"
    _warn(found.nodes, left_by)
    if found.problem:
        logger.warning("%s: %s", ranks.name, NOT_CLEANED(problem=found.problem))
    return _lost(ranks, found)


def _warn(nodes: Sequence[NodeFacts], left_by: str) -> None:
    for facts in nodes:
        if facts.problem:
            logger.warning("%s: %s", facts.node, facts.problem)
        if facts.ended:
            logger.warning("%s: %s", facts.node, ENDED_LEFT(processes=facts.ended, left_by=left_by))


def _lost(ranks: Ranks, found: _Answers) -> tuple[str, ...]:
    """Return the nodes that are lost, among those that did not answer."""
    # This node is alive: without its answer, the step is at fault. Slurm's report on the others still counts.
    if not found.cut and this_node() not in found.silent:
        return found.silent
    lost = tuple(down_nodes(",".join(found.silent)))
    slow = [node for node in found.silent if node not in lost]
    if found.cut and slow:
        logger.warning("%s: %s", ranks.name, ONLY_SLOW(nodes=", ".join(slow), limit_s=CLEAN_LIMIT_S))
    return lost


def _on_every_node(launcher: str, ranks: Ranks, task: list[str], listed: bytes, limit_s: float) -> _Answers:
    """Run a task on every node of a run; return the answers, why some are missing, and of which nodes."""
    try:
        if find_allocation() is None:
            only = NOT_REACHED(launcher=launcher, host=socket.gethostname())
            return _Answers((_do(task, listed),), only if ranks.nodes > 1 else "")
        if are_here(ranks):
            return _Answers((_do(task, listed),))
        return _by_a_step(tuple(dict.fromkeys(hosts_of(ranks))), task, listed, limit_s)
    except HpcaiError as error:
        return _Answers(problem=str(error))
    except OSError as error:
        return _Answers(problem=f"the nodes cannot be asked: {error}")


def _by_a_step(hosts: Sequence[str], task: list[str], listed: bytes, limit_s: float) -> _Answers:
    # A failing node must not stop the others, and there are no ranks that could wait for each other.
    alone = ["--kill-on-bad-exit=0", "--wait=0", "--mpi=none"]
    command = [*step_command(hosts, 1), *alone, sys.executable, "-m", "hpcai.measure.nodes", *task]
    output, errors, status = _run_step(command, listed, limit_s)
    found = {facts.node: facts for facts in map(_read_answer, output.splitlines()) if facts is not None}
    missing = [host for host in hosts if host not in found]
    nodes = tuple(found[host] for host in hosts if host in found)
    if not missing:
        return _Answers(nodes)
    words = errors.strip().splitlines()
    ending = ENDED_AFTER(limit_s=limit_s) if status is None else ENDED_WITH(status=status)
    problem = NO_ANSWER(nodes=", ".join(missing), ending=ending, words=words[-1] if words else "no output")
    return _Answers(nodes, problem, tuple(missing), cut=status is None)


def _run_step(command: list[str], listed: bytes, limit_s: float) -> tuple[str, str, int | None]:
    """Run a step; return its output, its errors and its status; None: it was ended at the limit.

    The step has always ended on return.
    """
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = process.communicate(listed, timeout=limit_s)
        status: int | None = process.returncode
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            output, errors = process.communicate(timeout=END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
        status = None
    except BaseException:
        process.kill()
        process.wait()
        raise
    return output.decode(errors="replace"), errors.decode(errors="replace"), status


def _read_answer(line: str) -> NodeFacts | None:
    """Parse a node's answer; None for any other line."""
    try:
        return NodeFacts.model_validate_json(line)
    except ValidationError:
        return None


def _do(task: list[str], listed: bytes) -> NodeFacts:
    """Run a task on this node."""
    options, text = _parse(task), zlib.decompress(listed).decode()
    if options.task == "clean":
        left = json.loads(text)
        return _clean([Path(name) for name in left["scratches"]], left["attempts"])
    files = [Path(name) for name in text.split("\0") if name]
    return _prepare(options.scratch, files, announce=options.announce)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m hpcai.measure.nodes", description="One node before or after a run."
    )
    tasks = parser.add_subparsers(dest="task", required=True)
    prepare = tasks.add_parser("prepare", help="reads the data's files from standard input")
    prepare.add_argument("--scratch", type=Path, required=True, help="folder of the run's scratch")
    prepare.add_argument("--announce", action="store_true", help="tell other nodes that see the same scratch")
    # A command line has no room for the folders of thousands of instances.
    tasks.add_parser("clean", help="reads the attempts and their scratch folders from standard input")
    return parser.parse_args(arguments)


def _prepare(scratch: Path, files: Sequence[Path], *, announce: bool) -> NodeFacts:
    # First, because remaining processes would affect the numbers of the next run.
    ended = end_orphans()
    swept = sweep_stages(scratch.parent)
    problems: list[str] = []
    room: dict[str, int] = {}
    page_cache: PageCache = "not_permitted"
    try:
        room = _room(scratch, announce=announce)
    except OSError as error:
        problems.append(f"{scratch.parent}: cannot be written ({error.strerror}); correct storage.node_local")
    try:
        page_cache = drop_page_cache(files, DROP_LIMIT_S)
        if page_cache == "kept":
            problems.append(NOT_DROPPED(files=len(files), limit_s=DROP_LIMIT_S))
    except OSError as error:
        problems.append(at(str(error.filename), DATA_GONE(reason=error.strerror)))
    return _facts(page_cache, room, swept, ended, "; ".join(problems))


def _clean(scratches: Sequence[Path], attempts: Sequence[str]) -> NodeFacts:
    problems: list[str] = []
    ended: list[int] = []
    try:
        ended = end_marked_processes(*attempts)
    except psutil.Error as error:
        problems.append(f"processes of the run may be left: {error}")
    with ThreadPoolExecutor(REMOVED_AT_ONCE) as pool:
        problems += filter(None, pool.map(_why_left, scratches))
    return _facts(ended=ended, problem="; ".join(problems))


def _why_left(scratch: Path) -> str:
    """Remove this node's folder of an attempt; return why it could not be removed, or a blank."""
    try:
        clean_stage(own_stage(scratch))
    except StagingError as error:
        return str(error)
    return ""


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
    page_cache: PageCache | None = None,
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
    print(_do(sys.argv[1:], sys.stdin.buffer.read()).model_dump_json(), flush=True)


if __name__ == "__main__":
    main()
