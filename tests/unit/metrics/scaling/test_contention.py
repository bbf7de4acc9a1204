"""Contention apart from communication, from independent trainings at once."""

import pandas as pd
import pytest
from unit.record_factory import make_record

from hpcai.metrics.scaling.contention import CONTENTION_COLUMNS, NO_SUCH_RANKS, OTHER_BATCH, tell_contention
from hpcai.metrics.scaling.scales import POINT_SETTINGS
from hpcai.metrics.scores.of_run import score_run

GROUP = "results/weak/b/v/n1x1/group.json"


def scales_of(record, alone, *others):
    point = record.plan.point
    own = {"variant": point.variant, "ranks": point.ranks, "batch": record.plan.global_batch, "rate": alone}
    rows = [
        own,
        *(
            {"variant": variant, "engine": "horovod", "ranks": ranks, "batch": batch, "rate": rate}
            for variant, ranks, batch, rate in others
        ),
    ]
    return pd.DataFrame(
        {
            **{name: getattr(point, name) for name in POINT_SETTINGS},
            "benchmark": point.benchmark,
            "variant": row["variant"],
            "engine": "horovod",
            "scale": point.scale if row is own else f"n1x{row['ranks']}",
            "ranks": row["ranks"],
            "global_batch_samples": row["batch"],
            "train_rate_samples_per_s": row["rate"],
        }
        for row in rows
    )


def test_contention_and_communication_multiply_to_the_distributed_ratio():
    record = make_record()
    rate, ranks, batch = score_run(record).train_rate_samples_per_s, record.plan.point.ranks, record.plan.global_batch
    strong = (record.plan.point.variant, 2 * ranks, batch, 1.1 * rate)
    weak = ("weak", 2 * ranks, 2 * batch, 1.2 * rate)
    (row,) = tell_contention({GROUP: [record, record]}, scales_of(record, 1.25 * rate, strong, weak)).to_dict("records")
    assert row["contention_ratio"] == pytest.approx(0.8)
    assert row["distributed_variant"] == "weak"
    assert row["distributed_ratio"] == pytest.approx(1.2 / 2.5)
    assert row["communication_ratio"] * row["contention_ratio"] == pytest.approx(row["distributed_ratio"])
    assert row["reason"] == ""


def test_without_the_same_batch_per_rank_the_row_says_so():
    record = make_record()
    strong = (record.plan.point.variant, 2 * record.plan.point.ranks, record.plan.global_batch, 10.0)
    (row,) = tell_contention({GROUP: [record, record]}, scales_of(record, 20.0, strong)).to_dict("records")
    assert row["distributed_ratio"] == pytest.approx(0.25)
    assert "batch per rank" in row["reason"]
    assert pd.isna(row["communication_ratio"]), "smaller batches cost efficiency, too"


def test_what_is_missing_has_a_reason():
    record = make_record()
    no_more = tell_contention({GROUP: [record]}, scales_of(record, 20.0)[:0])
    (broken,) = tell_contention({GROUP: [make_record(outcome="failed")]}, scales_of(record, 20.0)).to_dict("records")
    assert no_more["reason"].str.len().gt(0).all()
    assert no_more["contention_ratio"].isna().all()
    assert pd.isna(broken["contention_ratio"])
    assert broken["reason"]


def test_no_group_has_all_columns():
    assert list(tell_contention({}, pd.DataFrame()).columns) == list(CONTENTION_COLUMNS)


def test_of_rows_with_the_same_batch_per_rank_the_own_variant_is_compared():
    record = make_record()
    ranks, batch = 2 * record.plan.point.ranks, 2 * record.plan.global_batch
    scales = scales_of(record, 20.0, ("other", ranks, batch, 10.0), (record.plan.point.variant, ranks, batch, 30.0))
    (row,) = tell_contention({GROUP: [record, record]}, scales).to_dict("records")
    assert (row["distributed_variant"], row["distributed_ratio"]) == (record.plan.point.variant, pytest.approx(0.75))


@pytest.mark.parametrize(
    ("setting", "value"), [("precision", "bf16"), ("compression", "fp16"), ("accumulation", 2), ("fusion_bytes", 64.0)]
)
def test_a_row_of_other_settings_is_not_compared_with_the_same_batch_per_rank(setting, value):
    record = make_record()
    ranks, batch, own = 2 * record.plan.point.ranks, record.plan.global_batch, record.plan.point.variant
    scales = scales_of(record, 20.0, ("other", ranks, 2 * batch, 10.0), (own, ranks, batch, 30.0))
    (alike,) = tell_contention({GROUP: [record, record]}, scales).to_dict("records")
    scales[setting] = scales[setting].astype(object)
    scales.loc[scales["variant"] == "other", setting] = value
    (row,) = tell_contention({GROUP: [record, record]}, scales).to_dict("records")
    assert (alike["distributed_variant"], alike["reason"]) == ("other", "")
    assert (row["distributed_variant"], row["distributed_ratio"]) == (own, pytest.approx(0.75))
    assert row["reason"] == OTHER_BATCH()
    (none,) = tell_contention({GROUP: [record, record]}, scales[:2]).to_dict("records")
    assert pd.isna(none["distributed_ratio"])
    assert none["reason"] == NO_SUCH_RANKS(ranks=ranks)
