"""Draft of a kernel measurement: the results so far, so that an interrupted measurement can resume."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Fingerprint(_Line):
    """Origin of a measurement, in its first line. Times of other machines or software are never mixed with it."""

    processor: str
    software: str
    onednn: str
    threads: int
    seed: int
    cases: str
    """Digest of the first cases: if the ranges changed, the same seed gives other cases."""


class Started(_Line):
    """Written by every measuring process at its first case: a later crash is attributed to a case."""

    run: str


class TimedCase(_Line):
    """One case, measured or not.

    Attributes
    ----------
    kernel, index
        Identify the case: index in the kernel's list of random cases.
    cpu_time_s, cpu_time_min_s
        Median and smallest CPU time of one execution [s]; None if not measured.
    repetitions
        Number of warm repetitions.
    reason
        Why there is no time.
    """

    kernel: str
    index: int
    cpu_time_s: float | None = None
    cpu_time_min_s: float | None = None
    repetitions: int = 0
    reason: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """Kernel and index."""
        return self.kernel, self.index


_ANY: TypeAdapter[Fingerprint | TimedCase | Started] = TypeAdapter(Fingerprint | TimedCase | Started)


def append_line(draft: Path, line: Fingerprint | Started | TimedCase) -> None:
    """Append one line atomically."""
    with draft.open("a") as file:
        file.write(line.model_dump_json(exclude_defaults=True) + "\n")


def resume_draft(draft: Path, fingerprint: Fingerprint) -> set[tuple[str, int]]:
    """Prepare a draft for continuation, and return its cases; a draft of other origin is restarted."""
    lines = list(_whole_lines(draft))
    if not lines or lines[0] != fingerprint:
        draft.write_text(fingerprint.model_dump_json() + "\n")
        return set()
    # A killed process may have left half a line.
    text = draft.read_bytes()
    draft.write_bytes(text[: text.rfind(b"\n") + 1])
    return {line.key for line in lines if isinstance(line, TimedCase)}


def read_cases(draft: Path) -> dict[tuple[str, int], TimedCase]:
    """Return the cases of a draft by kernel and index."""
    return {line.key: line for line in _whole_lines(draft) if isinstance(line, TimedCase)}


def read_fingerprint(draft: Path) -> Fingerprint | None:
    """Return the origin of a draft, None if it is empty."""
    first = next(_whole_lines(draft), None)
    return first if isinstance(first, Fingerprint) else None


def has_started(draft: Path, run: str) -> bool:
    """Return whether the measuring process of that name has reached its first case."""
    return Started(run=run) in _whole_lines(draft)


def _whole_lines(draft: Path) -> Iterator[Fingerprint | Started | TimedCase]:
    """Return the lines before the first incomplete one."""
    if not draft.exists():
        return
    for text in draft.read_text().splitlines():
        try:
            yield _ANY.validate_json(text)
        except ValidationError:
            return
