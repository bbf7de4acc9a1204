"""Looks for words in a submission that belong to the machine: home folders, hosts, and where the results lie."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from hpcai.mlperf_hpc.submission.model import Problem, Submission

SHORTEST_HOST = 4
"""Names of hosts that are shorter, such as `vm`, stand in ordinary text by chance."""
HOME = re.compile(rb"/(?:home|Users)/[A-Za-z0-9._-]+|/root/")
_SHOWN = 3
Words = Mapping[str, re.Pattern[bytes]]


def find_private(tree: Path, submission: Submission, results: Path) -> Iterator[Problem]:
    """Yield the files that tell something of the machine that they need not tell.

    Nothing is changed: a log has to stay as it was written, so that its owner decides.

    Parameters
    ----------
    tree
        Folder above that of the organisation.
    submission
        Its records name the hosts of the runs.
    results
        Results folder, whose own place must not be told.
    """
    words = private_words(submission, results)
    for path in sorted(tree.rglob("*")):
        if path.is_file():
            yield from _in_content(path.read_bytes(), path.relative_to(tree).as_posix(), words)


def private_words(submission: Submission, results: Path) -> Words:
    """Return what must not be told, by its kind: home folders, hosts, and folders of this machine."""
    records = [record for system in submission.systems for record in system.records]
    hosts = {rank.placement.hostname for record in records for rank in record.ranks}
    hosts |= {str(record.provenance.machine_facts.get("hostname") or "") for record in records}
    places = {str(results.resolve().parent), str(Path.home()), str(Path.cwd())}
    return {
        "a home folder": HOME,
        "the name of a host": _any_of(host for host in hosts if len(host) >= SHORTEST_HOST),
        "a folder of this machine": _any_of(place for place in places if place.count(os.sep) > 1),
    }


def _any_of(words: Iterable[str]) -> re.Pattern[bytes]:
    choices = "|".join(re.escape(word) for word in sorted(words)) or r"(?!)"
    return re.compile(rf"(?<![A-Za-z0-9_-])(?:{choices})(?![A-Za-z0-9_-])".encode())


def _in_content(content: bytes, place: str, words: Words) -> Iterator[Problem]:
    for kind, pattern in words.items():
        found = sorted({match.decode(errors="replace") for match in pattern.findall(content)})
        if found:
            shown = ", ".join(found[:_SHOWN])
            yield Problem("failure", "hygiene", place, f"holds {kind} ({shown}); it was left as it is: look and decide")
