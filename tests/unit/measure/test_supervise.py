"""Files of a run, and the outcome of its launcher."""

import os

from unit.record_factory import make_provenance, make_record

from hpcai.data.manifest import Manifest
from hpcai.data.packed import PackManifest
from hpcai.measure.progress import read_epochs
from hpcai.measure.recording import collect_provenance, record_attempt
from hpcai.measure.supervise import scratch_folder
from hpcai.measure.watch import Ending

PLAN = make_record().plan


def test_a_run_that_failed_is_judged_as_well(tmp_path):
    (tmp_path / "output.log").write_text("Process 1 was terminated by signal 9\n")
    ending = Ending(verdict="ended", exit_status=9, started_monotonic_s=0.0, wall_s=3.0)
    facts = {"data_source": "generated", "started_utc": "2026-01-02T03:04:05Z"}
    record = record_attempt(PLAN, tmp_path, ending, make_provenance(), facts)
    assert record.outcome == "failed"
    closed, opened = record.verdicts
    assert not closed.valid
    assert {"official_data", "target_reached", "seeds"} <= {finding.rule for finding in closed.deviations}
    assert "seeds" not in {finding.rule for finding in opened.deviations}


def test_an_epoch_that_is_still_being_written_is_left_out(tmp_path):
    path = tmp_path / "epochs.jsonl"
    assert read_epochs(path) == ()
    line = make_record().epochs[0].model_dump_json()
    path.write_text(f"{line}\n{line[:20]}")
    assert len(read_epochs(path)) == 1
    # Left by a node that stopped between the new size of a file and its content.
    path.write_bytes(f"{line}\n".encode() + bytes(40) + b"\n" + b"\xff\xfe\n")
    assert len(read_epochs(path)) == 1


def test_scratch_belongs_to_the_attempt(monkeypatch, tmp_path):
    machine = PLAN.machine.model_copy(
        update={"storage": PLAN.machine.storage.model_copy(update={"node_local": "${TMPDIR}/x"})}
    )
    plan = PLAN.model_copy(update={"machine": machine})
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert scratch_folder(plan, "a1") == tmp_path / "x" / "a1"
    monkeypatch.delenv("TMPDIR")
    assert str(scratch_folder(plan, "a1")) == "/tmp/x/a1"


def make_pack(**changes: object) -> PackManifest:
    """Return the manifest of one shard."""
    member = {
        "name": "train/a.tfrecord", "offset": 512, "packed_bytes": 3, "content_bytes": 4, "content_crc32c": "0" * 8,
        "record_offsets": (0,),
    }  # fmt: skip
    shard = {"file": "train-00000-of-00001.tar", "split": "train", "bytes": 2048, "crc32c": "a" * 8}
    fields = {
        "dataset": "images_tiny", "manifest_digest": "ef" * 32, "codec": "gzip", "level": 6, "stored_bytes": 4,
        "content_bytes": 4, "packed_bytes": 2048, "compression_ratio": 4 / 2048, "pack_s": 1.5,
        "shards": ({**shard, "members": (member,)},),
    }  # fmt: skip
    return PackManifest.model_validate({**fields, **changes})


def test_equal_data_packed_twice_have_one_digest():
    manifest = Manifest(
        dataset="images_tiny", workload="images", source="generated", edition="v1", sample_shape=(1,), splits={}
    )
    other = make_pack().shards[0].model_copy(update={"crc32c": "b" * 8})
    packs = [make_pack(), make_pack(pack_s=2.5), make_pack(shards=(other,)), make_pack(level=9)]
    digests = [collect_provenance(make_record().plan, manifest, pack, "kept").pack_digest for pack in packs]
    assert digests[0] == digests[1]
    assert len({*digests}) == 3
    assert collect_provenance(make_record().plan, manifest, None, "kept").pack_digest is None


def test_scratch_belongs_to_the_user_and_the_plan_to_all(monkeypatch, tmp_path):
    def with_scratch(text):
        storage = PLAN.machine.storage.model_copy(update={"node_local": text})
        return PLAN.model_copy(update={"machine": PLAN.machine.model_copy(update={"storage": storage})})

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    own = with_scratch("${TMPDIR}/x-${UID}")
    assert scratch_folder(own, "a1") == tmp_path / f"x-{os.getuid()}" / "a1"
    # What was measured before the number was there is not measured again.
    assert own.digest == with_scratch("${TMPDIR}/x").digest != with_scratch("${TMPDIR}/y").digest
