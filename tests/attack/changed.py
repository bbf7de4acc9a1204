"""Changed digits, flipped bits and cut ends in every file of a finished study, and what its readers say."""

import contextlib
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from attack.answers import Answer, Opened, Part, parts_of
from attack.tally import Tally, Verdict

from hpcai.core.errors import HpcaiError
from hpcai.measure.publish import restore


@dataclass(frozen=True)
class Known:
    """What a part answers as long as nothing is changed, and which files it opens."""

    part: Part
    answer: Answer
    files: frozenset[Path]


def attack(study: Path, random_numbers: random.Random, count: int) -> Tally:
    """Change files one at a time, let everything read that would, and put them back.

    Parameters
    ----------
    study
        Working folder of a copy of a finished study: a file that is changed may stay so if this is ended.
    random_numbers
        Where and what.
    count
        Changes of each group of files.
    """
    tally = Tally("changed bytes")
    with contextlib.chdir(study):
        _change(tally, study, random_numbers, count)
    return tally


def _change(tally: Tally, study: Path, random_numbers: random.Random, count: int) -> None:
    known = _know(parts_of(study / "config"))
    for group, files in _groups(known.values()).items():
        for _ in range(count if files else 0):
            file = random_numbers.choice(files)
            whole = file.read_bytes()
            what, damaged = damage(whole, random_numbers)
            file.write_bytes(damaged)
            try:
                verdict, words = _judge(file, known)
                tally.add(group, f"{file.relative_to(study)}: {what}", verdict, words)
                _put_back(tally, file, whole, verdict)
            finally:
                file.write_bytes(whole)


def damage(whole: bytes, random_numbers: random.Random) -> tuple[str, bytes]:
    """Return what is done to a content, and the damaged content: a digit, a bit, or an end that is cut off."""
    digits = [place for place in range(min(len(whole), 1 << 20)) if whole[place : place + 1].isdigit()]
    kind = random_numbers.choice(["digit", "digit", "bit", "bit", "bit", "cut"])
    if kind == "digit" and digits:
        place = random_numbers.choice(digits)
        other = random_numbers.choice([digit for digit in b"0123456789" if digit != whole[place]])
        return f"digit {place}", whole[:place] + bytes([other]) + whole[place + 1 :]
    if kind == "cut" and len(whole) > 1:
        length = random_numbers.randrange(len(whole))
        return f"cut after {length} of {len(whole)} bytes", whole[:length]
    place = random_numbers.randrange(8 * len(whole))
    flipped = bytearray(whole)
    flipped[place // 8] ^= 1 << place % 8
    return f"bit {place}", bytes(flipped)


def _know(parts: Mapping[str, Part]) -> dict[str, Known]:
    opened, known = Opened(), {}
    for name, part in parts.items():
        started_s = time.monotonic()
        answer, files = opened.by(part)
        print(f"{name}: {len(files)} files, {time.monotonic() - started_s:.2f} s", flush=True)
        if part() != answer:
            raise AssertionError(f"{name}: two answers about the same files differ, so that no change can be told")
        known[name] = Known(part, answer, frozenset(file.resolve() for file in files if file.is_file()))
    return known


def _groups(known: Iterable[Known]) -> dict[str, list[Path]]:
    """Return the files that anything reads, by what they are."""
    groups: dict[str, list[Path]] = {}
    here = Path.cwd().resolve()
    for file in sorted({file for one in known for file in one.files if file.is_relative_to(here)}):
        if file.stat().st_size and not file.is_relative_to(here / "config"):
            groups.setdefault(_group(file.relative_to(here)), []).append(file)
    return groups


def _group(path: Path) -> str:
    stage, name = path.parts[1], path.name
    if path.parts[0] == "data":
        return name if name in {"manifest.json", "packed.json"} else "shards" if name.endswith(".tar") else "samples"
    if name == "record.json":
        return "record.json"
    if "raw" in path.parts:
        return "raw files"
    if stage == "characterise" and path.suffix == ".json":
        return "ceilings, links, work"
    if path.suffix == ".parquet":
        return "tables"
    if stage == "figures":
        return "figures"
    return "summaries, study, documents" if len(path.parts) == 2 or stage == "hpc_ai500" else name


def _judge(file: Path, known: Mapping[str, Known]) -> tuple[Verdict, str]:
    """Let every part read that opens a file, and tell whether any of them gives another number without a word."""
    noticed = ""
    for name, one in known.items():
        if file.resolve() not in one.files:
            continue
        try:
            found = one.part()
        except HpcaiError as error:
            noticed = noticed or f"{name}: {error}"
            continue
        except Exception as error:
            return "traceback", f"{name}: {type(error).__name__}: {error}"
        if found == one.answer:
            continue
        if name != "doctor" and not _says_so(found, one.answer):
            return "silent", f"{name}: {_difference(found, one.answer)}"
        noticed = noticed or f"{name}: {_difference(found, one.answer)}"
    return ("noticed", noticed) if noticed else ("harmless", "")


def _says_so(found: Answer, expected: Answer) -> bool:
    """Whether a capture that cannot be read is a row with its reason, and nothing else is another number."""
    rows = found.get("captures", "").splitlines()
    if not any("not readable" in row for row in rows):
        return False
    return all(set(found[key].splitlines()) <= set(expected[key].splitlines()) for key in expected if key != "captures")


def _difference(found: Answer, expected: Answer) -> str:
    for key in expected:
        new, old = found.get(key, ""), expected[key]
        place = next((place for place, pair in enumerate(zip(new, old, strict=False)) if pair[0] != pair[1]), None)
        if new != old:
            start = max((place or 0) - 40, 0)
            return f"{key}: {new[start : start + 120]!r} instead of {old[start : start + 120]!r}"
    return "an answer more"


def _put_back(tally: Tally, file: Path, whole: bytes, verdict: Verdict) -> None:
    """Let `hpcai restore` put back a record whose change was noticed: nothing but the right one may come of it."""
    if file.name != "record.json" or verdict != "noticed":
        return
    folder = file.parent.parent if file.parent.name == "raw" else file.parent
    try:
        restore(folder)
    except HpcaiError as error:
        tally.add("restore", str(file), "noticed", str(error))
        return
    right = all((folder / name).read_bytes() == whole for name in ("record.json", "raw/record.json"))
    tally.add("restore", str(file), "noticed" if right else "silent", "" if right else "put back another record")
    for name in ("record.json", "raw/record.json"):
        (folder / name).chmod(0o644)
