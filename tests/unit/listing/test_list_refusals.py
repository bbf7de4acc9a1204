"""Every refusal of the list has a submission that is refused for exactly this reason, beside one that is sound."""

import io
import os
import shutil
import tarfile
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from unit.listing.list_factory import DAY, pack, write_declared, write_results
from unit.mlperf_hpc.log_factory import log_text, write_tree
from unit.mlperf_hpc.submission.result_factory import INSTANCES, make_own_record, write_group, write_runs
from unit.refusals import refused

from hpcai.catalogue.tables import columns_of
from hpcai.core.errors import ParseError
from hpcai.core.messages import Message
from hpcai.core.table_files import read_parquet, write_parquet
from hpcai.listing import (
    declared,
    entry_parts,
    own,
    own_tables,
    own_weak,
    packages,
    rankings,
    reading,
    rounds,
    sources,
)
from hpcai.listing.build import Wanted, build_site
from hpcai.metrics import run_tables
from hpcai.mlperf_hpc.rounds import archives
from hpcai.records import files, folders
from hpcai.records.files import write_json
from hpcai.records.folders import MANIFEST, write_manifest

TODAY = date(2026, 11, 25)
Maker = Callable[[Path], object]
CASES: dict[str, tuple[Maker, date]] = {}
"""By code: what writes a submission into a folder, and the day of the build."""


def case(code: str, today: date = TODAY) -> Callable[[Maker], Maker]:
    def note(maker: Maker) -> Maker:
        CASES[code] = (maker, today)
        return maker

    return note


def sound(folder: Path) -> Path:
    return pack(write_declared(folder.parent / "raw"), folder)


def results(folder: Path) -> Path:
    return write_results(folder / "study")


def runs_of_a_round(folder: Path, **tree: object) -> Path:
    write_tree(folder.parent / "tree", **{"logs": [log_text()], **tree})
    return folder.parent / "tree"


def archive(folder: Path, *extra: tuple[tarfile.TarInfo, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / "round.tar", "w") as tar:
        tar.add(runs_of_a_round(folder), "round")
        for info, content in extra:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return folder / "round.tar"


@case(folders.NO_MANIFEST.code)
def no_manifest(folder: Path) -> None:
    (sound(folder) / MANIFEST).unlink()


@case(folders.NOT_LISTED.code)
def more_than_the_manifest(folder: Path) -> None:
    (sound(folder) / "content" / "more.yaml").write_text("")


@case(folders.NOT_THERE.code)
def less_than_the_manifest(folder: Path) -> None:
    (sound(folder) / "content" / "paper.yaml").unlink()


@case(folders.CHANGED.code)
def another_number_than_the_manifest(folder: Path) -> None:
    file = sound(folder) / "content" / "paper.yaml"
    file.write_text(file.read_text().replace("1000.0", "9000.0"))


@case(sources.UNKNOWN.code)
def notes(folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.txt").write_text("nothing")


@case(sources.LINK.code)
def a_link(folder: Path) -> None:
    (sound(folder) / "content" / "more.yaml").symlink_to("/etc/passwd")


@case(sources.NO_FILE.code)
def a_pipe(folder: Path) -> None:
    os.mkfifo(sound(folder) / "content" / "pipe")


@case(sources.BAD_NAME.code)
def a_name_that_is_no_text(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(sound(folder)) + b"/\xff")).write_text("")


@case(packages.FUTURE.code, DAY - timedelta(days=2))
def submitted_tomorrow(folder: Path) -> None:
    sound(folder)


@case(packages.NO_CONTENT.code)
def two_contents(folder: Path) -> None:
    package = sound(folder)
    (package / "content" / "more.yaml").write_text("")
    (package / MANIFEST).unlink()
    write_manifest(package)


@case(packages.OTHER_KIND.code)
def another_kind(folder: Path) -> None:
    package = sound(folder)
    text = (package / "submission.yaml").read_text()
    (package / "submission.yaml").write_text(text.replace("kind: declared", "kind: round"))
    (package / MANIFEST).unlink()
    write_manifest(package)


@case("ConfigError")
def a_damaged_declaration(folder: Path) -> None:
    write_declared(folder, rate="-1")


@case(entry_parts.FUTURE.code)
def declared_in_the_future(folder: Path) -> None:
    write_declared(folder, day="2030-01-01")


@case(own.NO_RECORDS.code)
def no_records(folder: Path) -> None:
    (folder / "study" / "runs").mkdir(parents=True)


@case("RecordError")
def a_changed_record(folder: Path) -> None:
    record = next((results(folder) / "runs").rglob("record.json"))
    record.write_text(record.read_text()[:500])


@case(own.NO_SCORES.code)
def no_scores(folder: Path) -> None:
    (results(folder) / "tables" / "run_scores.parquet").unlink()


@case("TableError")
def a_damaged_table(folder: Path) -> None:
    (results(folder) / "tables" / "run_scores.parquet").write_bytes(b"PAR1")


@case(own.OTHER_RUNS.code)
def scores_of_other_runs(folder: Path) -> None:
    file = results(folder) / "tables" / "run_scores.parquet"
    write_parquet(read_parquet(file).iloc[1:], file)


@case(own.OTHER_NUMBERS.code)
def better_scores(folder: Path) -> None:
    file = results(folder) / "tables" / "run_scores.parquet"
    scores = read_parquet(file)
    write_parquet(scores.assign(train_rate_samples_per_s=scores["train_rate_samples_per_s"] * 1.001), file)


@case(own_tables.MISSING.code)
def a_strange_overview(folder: Path) -> None:
    file = results(folder) / "tables" / "machine_overview.parquet"
    write_parquet(pd.DataFrame(columns=[*columns_of("machine_overview")][1:]), file)


@case(run_tables.RUN_TWICE.code)
def a_run_twice(folder: Path) -> None:
    record = next((results(folder) / "runs").rglob("record.json"))
    shutil.copytree(record.parent, record.parent.with_name("r9"))


@case(files.FILE_CHANGED.code)
def a_changed_log(folder: Path) -> None:
    write_runs(folder / "study", "cosmoflow", numbers=[1])
    log = next((folder / "study").rglob("mllog.txt"))
    log.write_text(log.read_text() + "\n")


@case(own_weak.NO_LOGS.code)
def a_group_without_a_log(folder: Path) -> None:
    group = write_group(results(folder))
    for number in range(1, INSTANCES + 1):
        shutil.rmtree(group / f"i{number}")
        (group / f"i{number}").mkdir()
        record = make_own_record("oc20", number, outcome="failed", kind="weak", instances=INSTANCES)
        write_json(record, group / f"i{number}" / "record.json")


@case(reading.BROKEN.code)
def words_for_watts(folder: Path) -> None:
    file = results(folder) / "tables" / "run_scores.parquet"
    write_parquet(read_parquet(file).assign(mean_power_w="many"), file)


@case(rankings.TWICE.code)
def the_same_twice(folder: Path) -> None:
    shutil.copytree(sound(folder), folder / "again")


@case(rounds.UNSAFE.code)
def a_path_that_leaves_the_archive(folder: Path) -> None:
    archive(folder, (tarfile.TarInfo("../ORG/results/machine/strong/cosmoflow/result_2.txt"), b"x"))


@case(rounds.FUTURE.code, date(2019, 1, 1))
def logs_of_the_future(folder: Path) -> None:
    archive(folder)


@case(rounds.NO_LOGS.code)
def pruned_logs_alone_beside_a_result_of_the_system(folder: Path) -> None:
    shutil.copytree(runs_of_a_round(folder), folder / "round")
    write_tree(folder / "round", benchmark="deepcam", pruned=[log_text("deepcam")])


@case(archives.CUT.code)
def half_an_archive(folder: Path) -> None:
    file = archive(folder)
    file.write_bytes(file.read_bytes()[:4000])


NO_REFUSALS = {
    declared.NO_SCORE, own_tables.AS_SUBMITTED, own_weak.NO_RULE, rounds.ACCEPTED, rounds.NO_RULES, rounds.NO_SCORE,
    rounds.NOT_ACCEPTED,
}  # fmt: skip
"""Messages of the same modules that label what is listed."""
ELSEWHERE = {
    entry_parts.NOT_VALID, sources.MISSING, sources.TWICE, sources.TOO_LARGE, packages.NO_SUBMISSION,
    packages.NOT_ACCEPTED, packages.SECRETS, packages.NOT_APART, packages.OWN_WORDS, folders.NO_FOLDER,
    folders.NOT_EARLIER,
}  # fmt: skip
"""What ends the build or the submission, or needs other limits: tests of its own."""
MODULES = (declared, entry_parts, own, own_tables, own_weak, packages, rankings, reading, rounds, sources, folders)


def messages_of(module: ModuleType) -> set[Message]:
    return {value for value in vars(module).values() if isinstance(value, Message)}


def built(folder: Path, monkeypatch: pytest.MonkeyPatch, today: date = TODAY):
    monkeypatch.setattr("hpcai.listing.pages.write_pages", lambda *_: None)
    return build_site(Wanted(folders=(folder,), site=folder.parent / "site", today=today))


@pytest.mark.parametrize("code", CASES)
def test_a_submission_is_refused_for_this_reason_alone(tmp_path, monkeypatch, code):
    make, today = CASES[code]
    make(tmp_path / "in")
    write_declared(tmp_path / "in", "sound", day="2018-01-01")
    found = built(tmp_path / "in", monkeypatch, today)
    assert {reason.code for refusal in found.lost for reason in refusal.reasons} == {code}
    assert "sound.yaml" in {entry.submission for entry in found.edition.entries}


def test_every_refusal_has_a_submission():
    known = {one.code for one in set.union(*map(messages_of, MODULES)) - NO_REFUSALS - ELSEWHERE}
    assert known <= set(CASES)


def test_a_result_that_breaks_its_rules_is_listed_and_refused_with_the_reason(tmp_path, monkeypatch):
    results(tmp_path / "in")
    found = built(tmp_path / "in", monkeypatch)
    broken = {entry.id for entry in found.edition.entries if entry.verdict.status == "not valid"}
    reasons = {refusal.place: {reason.code for reason in refusal.reasons} for refusal in found.edition.refused}
    assert broken
    assert reasons == {key: {entry_parts.NOT_VALID.code} for key in broken}
    assert found.lost == ()


def test_a_damaged_group_is_refused_beside_its_study(tmp_path, monkeypatch):
    group = write_group(results(tmp_path / "in"))
    (group / "i2" / "raw" / "mllog.txt").write_text("")
    found = built(tmp_path / "in", monkeypatch)
    assert {(one.place, one.reasons[0].code) for one in found.lost} == {
        ("weak/opencatalyst/fp32/n1x1/group.json", files.FILE_CHANGED.code)
    }
    assert found.edition.entries


def test_folders_with_one_name_and_missing_ones_end_the_build(tmp_path, monkeypatch):
    for name in ("one", "two"):
        write_declared(tmp_path / name)
    with refused(ParseError, sources.TWICE):
        build_site(Wanted(folders=(tmp_path / "one", tmp_path / "two"), site=tmp_path / "site", today=TODAY))
    with refused(ParseError, sources.MISSING):
        built(tmp_path / "three", monkeypatch)
