"""The code that ran: the files of its commit, from git, never from a folder that may have changed since."""

import subprocess
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import hpcai
from hpcai.mlperf_hpc.submission.model import Problem, Submission

PARTS = (
    "src", "workflow", "profiles", "envs", "config", "reports/workflow.rst", "reports/captions",
    "Snakefile", "Makefile", "pyproject.toml",
    "requirements.lock", "requirements-cuda.lock", "requirements-newest.lock",
)  # fmt: skip
"""Files that prepare data and train; tests, pictures and untracked files are excluded."""
GIT_S = 60
_FILE, _EXECUTABLE = 0o644, 0o755


@dataclass(frozen=True)
class Code:
    """Files of the implementation by path, with their modes; empty, with the reason, if unavailable.

    ``sentence`` states their origin in the README.
    """

    files: dict[str, tuple[bytes, int]]
    sentence: str
    problems: tuple[Problem, ...]


def find_code(submission: Submission, results: Path) -> Code:
    """Return the code of a submission's runs.

    Parameters
    ----------
    submission
        Its records name the commit.
    The results folder: its checkout is searched first, then that of this library.
        The results folder: its checkout is asked first, then that of this library.
    """
    origins = [record.provenance for system in submission.systems for record in system.records]
    commits = sorted({origin.commit or "" for origin in origins})
    if commits == [""] or len(commits) > 1:
        found = "no commit is known" if commits == [""] else f"runs of several commits: {', '.join(commits)}"
        return _none(f"{found}, expected all runs of a submission from one commit; measure them again from it")
    commit, dirty = commits[0], sum(origin.dirty is not False for origin in origins)
    problems: tuple[Problem, ...] = ()
    if dirty:
        message = (
            f"{dirty} of {len(origins)} runs were made by files that differed from commit {commit}, so that this is "
            "not the code that ran; commit all changes and measure them again"
        )
        problems = (Problem("failure", "code", "", message),)
    root = next((root for root in _checkouts(results) if _has(root, commit)), None)
    files = _archive(root, commit) if root else {}
    if not files:
        missing = f"commit {commit} is in no git checkout here; submit from the checkout that the runs were made from"
        return _none(missing, *problems)
    state = ", with changes that no commit holds" if dirty else ""
    return Code(files, f"The code is that of commit `{commit}`{state}.", problems)


def _none(message: str, *others: Problem) -> Code:
    return Code({}, f"The code is not here: {message}.", (Problem("failure", "code", "", message), *others))


def _checkouts(results: Path) -> Iterable[Path]:
    return (results.resolve(), Path(hpcai.__file__).resolve().parent)


def _has(folder: Path, commit: str) -> bool:
    return _git(folder, "cat-file", "-e", f"{commit}^{{commit}}:src/hpcai") is not None


def _archive(folder: Path, commit: str) -> dict[str, tuple[bytes, int]]:
    """Return the plain files of a commit; links and empty package files stay as in git."""
    top = (_git(folder, "rev-parse", "--show-toplevel") or b"").decode().strip()
    known = (_git(Path(top), "ls-tree", "--name-only", commit, "--", *PARTS) or b"").decode().split("\n")
    content = _git(Path(top), "archive", "--format=tar", commit, "--", *(name for name in known if name))
    if content is None:
        return {}
    files = {}
    with tarfile.open(fileobj=BytesIO(content)) as archive:
        for member in archive.getmembers():
            stream = archive.extractfile(member) if member.isfile() else None
            if stream is not None:
                files[member.name] = (stream.read(), _EXECUTABLE if member.mode & 0o100 else _FILE)
    return files


def _git(folder: Path, *arguments: str) -> bytes | None:
    """Return what git prints, or None if it is missing or fails."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, timeout=GIT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
