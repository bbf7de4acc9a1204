"""The draft of a kernel measurement: what is measured so far, so that an interrupted measurement can go on."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Fingerprint(_Line):
    """What a measurement belongs to; its first line. Times of another machine or software are not mixed with it."""

    processor: str
    software: str
    onednn: str
    threads: int
    seed: int
    cases: str
    """Digest of the first cases: the same seed gives others where the ranges have changed."""


class Started(_Line):
    """Written by every measuring process when it comes to its first case: what ends it from then on is a case."""

    run: str


class TimedCase(_Line):
    """One case, measured or not.

    Attributes
    ----------
    kernel, index
        Which case: the place in the kernel's list of random cases.
    cpu_time_s, cpu_time_min_s
        Median and smallest CPU time of one execution [s]; None if not measured.
    repetitions
        Warm repetitions behind them.
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
    """Add one line atomically."""
    with draft.open("a") as file:
        file.write(line.model_dump_json(exclude_defaults=True) + "\n")


def resume_draft(draft: Path, fingerprint: Fingerprint) -> set[tuple[str, int]]:
    """Make a draft ready to be continued, and return the cases that it has; one of other origin is restarted."""
    lines = list(_whole_lines(draft))
    if not lines or lines[0] != fingerprint:
        draft.write_text(fingerprint.model_dump_json() + "\n")
        return set()
    # What was written when a process was killed may be half a line.
    text = draft.read_bytes()
    draft.write_bytes(text[: text.rfind(b"\n") + 1])
    return {line.key for line in lines if isinstance(line, TimedCase)}


def read_cases(draft: Path) -> dict[tuple[str, int], TimedCase]:
    """Return the cases of a draft by kernel and index."""
    return {line.key: line for line in _whole_lines(draft) if isinstance(line, TimedCase)}


def read_fingerprint(draft: Path) -> Fingerprint | None:
    """Return what a draft belongs to, None if it has not been started."""
    first = next(_whole_lines(draft), None)
    return first if isinstance(first, Fingerprint) else None


def has_started(draft: Path, run: str) -> bool:
    """Return whether the measuring process of that name has come to its first case."""
    return Started(run=run) in _whole_lines(draft)


def _whole_lines(draft: Path) -> Iterator[Fingerprint | Started | TimedCase]:
    """Return the lines up to the first that is not whole."""
    if not draft.exists():
        return
    for text in draft.read_text().splitlines():
        try:
            yield _ANY.validate_json(text)
        except ValidationError:
            return
