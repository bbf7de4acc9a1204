"""Examine the files of a dataset with all processors; results come in the order of the files."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Generic, TypeVar

from hpcai.core.errors import DatasetError
from hpcai.core.files import regular_bytes
from hpcai.data.module import DataModule, Finding, finding_of
from hpcai.data.processes import in_forks

MAX_THREADS = 16
PROCESSES_FROM_FILES, PROCESSES_FROM_BYTES = 4096, 64 << 20
"""Files, or bytes in them, from which several processes pay off: starting them takes about a tenth of a second."""
_MOST_TOGETHER, _IN_THREADS = 256, 64
"""Files examined together by a process of several and by the only one: few messages, but frequent progress."""
_ROUNDS = 16
"""Groups of files for each process, so that all end at nearly the same time."""
Item = TypeVar("Item")
Result = TypeVar("Result")


class Examination(Generic[Result]):
    """Examines files, in several processes if there are many or large ones; iterate once.

    Parameters
    ----------
    module, root
        The benchmark's data module, and the folder of the files.
    paths
        The files, relative to ``root``.
    conclude
        Called with the number of the first of some files and with what was found for each, perhaps in another process;
        what it returns is yielded, in the order of the files.
    progress
        Called with the number of files examined since the last call.
    """

    def __init__(
        self,
        module: DataModule[Any],
        root: Path,
        paths: Sequence[str],
        conclude: Callable[[int, Sequence[Finding]], Result],
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._module, self._root, self._paths = module, root, paths
        self._conclude, self._progress = conclude, progress or (lambda _: None)
        self._processes = self._useful_processes()
        self.samples: dict[str, list[Any]] = {}
        """What the later `DataModule.steps` of a file returned, by path."""

    def __iter__(self) -> Iterator[Result]:
        """Yield what was concluded."""
        few = self._paths if len(self._paths) < PROCESSES_FROM_FILES else ()
        steps = [self._module.steps(self._root / path) for path in few]
        return self._step_by_step(steps) if any(len(some) > 1 for some in steps) else self._file_by_file()

    def _file_by_file(self) -> Iterator[Result]:
        several = self._processes > 1
        size = max(1, min(_MOST_TOGETHER, len(self._paths) // (_ROUNDS * self._processes))) if several else _IN_THREADS
        groups = [range(len(self._paths))[start : start + size] for start in range(0, len(self._paths), size)]

        def work(number: int) -> Result:
            group = groups[number]
            paths = self._paths[group.start : group.stop]
            found = self._module.examine_together(self._root, paths) if several else in_parallel(self._examine, paths)
            return self._conclude(group.start, found)

        with closing(in_forks(work, len(groups), self._processes)) as results:
            for group, result in zip(groups, results, strict=True):
                self._progress(len(group))
                yield result

    def _examine(self, path: str) -> Finding:
        return finding_of(partial(self._module.examine, self._root / path))

    def _step_by_step(self, steps: Sequence[Sequence[Callable[[], Any]]]) -> Iterator[Result]:
        flat = list(chain.from_iterable(steps))

        def work(number: int) -> Any:  # noqa: ANN401
            return finding_of(flat[number])

        with closing(in_forks(work, len(flat), self._processes)) as results:
            for number, (path, own) in enumerate(zip(self._paths, steps, strict=True)):
                facts, *others = islice(results, len(own))
                problem = next((found for found in (facts, *others) if isinstance(found, DatasetError)), None)
                if others and not problem:
                    self.samples[path] = list(chain.from_iterable(others))
                self._progress(1)
                yield self._conclude(number, [problem or facts])

    def _useful_processes(self) -> int:
        cores = len(os.sched_getaffinity(0))
        many = len(self._paths) >= PROCESSES_FROM_FILES
        if cores == 1 or not (many or self._total_bytes() >= PROCESSES_FROM_BYTES):
            return 1
        return cores

    def _total_bytes(self) -> int:
        return sum(_bytes_of(self._root / path) for path in self._paths)


def _bytes_of(file: Path) -> int:
    try:
        return regular_bytes(file)
    except OSError:
        return 0  # examining it tells what is wrong


def in_parallel(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Apply a function that mostly releases the interpreter lock; return results in the order of the items."""
    threads = min(MAX_THREADS, len(os.sched_getaffinity(0)), max(1, len(items)))
    if threads == 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        try:
            return list(pool.map(function, items))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
