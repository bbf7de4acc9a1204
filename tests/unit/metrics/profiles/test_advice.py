"""Advice is given only where its numbers were measured and cross a threshold."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from unit.view_factory import COLUMNS, make_ceilings, make_links, make_point, make_rows, make_tables

from hpcai.config.benchmark import PackSettings, StagingSettings
from hpcai.config.runs import Point
from hpcai.metrics.profiles import advice, advice_exchange
from hpcai.metrics.profiles.advice import COLUMNS as ADVICE_COLUMNS
from hpcai.metrics.profiles.advice import advise

NONE = pd.DataFrame()
NAMES = ("communication", "phases", "kernels", "io", "links", "ceilings", "captures")
QUIET: dict[str, Any] = {"communication_share_ratio": 0.15, "steps": 10, "batches": 100, "operations": 1000}


def sentences(**tables: pd.DataFrame) -> list[str]:
    """Return the advice on these tables; the other tables are empty."""
    return advise({name: tables.get(name, NONE) for name in NAMES})["sentence"].tolist()


def communication(ranks: int = 2, **values: Any) -> pd.DataFrame:
    return make_rows("communication", make_point(ranks=ranks), **{**QUIET, **values})


def kernels(shares: dict[str, float], **values: Any) -> pd.DataFrame:
    rows = [make_rows("kernels", category=name, share_ratio=share, **values) for name, share in shares.items()]
    return pd.concat(rows, ignore_index=True)


def io(**values: Any) -> pd.DataFrame:
    return make_rows("io", **{"page_cache": "cold", **values})


def test_columns_and_evidence() -> None:
    tables = make_tables(3)
    given = advise(tables)
    assert tuple(given.columns) == ADVICE_COLUMNS
    assert set(given["topic"]) == {"communication", "io", "kernels"}
    assert given.groupby(["topic", "benchmark", "variant", "engine", "scale"]).size().max() <= 2
    assert given["evidence"].str.contains("results/profiles/").all()
    assert not given["sentence"].str.contains("nan").any()
    assert not given["evidence"].str.contains("nan").any()
    assert given["sentence"].str.endswith(".").all()


def test_nothing_measured_gives_no_advice() -> None:
    assert sentences() == []
    empty = {name: pd.DataFrame(columns=list(columns)) for name, columns in COLUMNS.items()}
    assert sentences(**{name: empty[name] for name in NAMES if name != "ceilings"}) == []
    blank = {name: make_rows(name) for name in ("communication", "phases", "io")}
    assert sentences(**blank, kernels=make_rows("kernels", category="other")) == []


def test_missing_columns_give_no_advice() -> None:
    for name in ("communication", "io"):
        identity = make_rows(name)[["run_id", "benchmark", "variant", "engine", "scale", "nodes", "ranks"]]
        assert sentences(**{name: identity}) == []


def test_negotiation_names_settings_with_values() -> None:
    (words,) = sentences(
        communication=communication(negotiation_share_ratio=0.2857, bytes_per_step=3.0e7, cycle_time_s=0.001)
    )
    fusion = advice_exchange.ONE_BATCH_OR_TRY(
        settings="fusion_bytes 32 MiB and cycle_time_s 2 ms (twice the present one)"
    )
    assert words == advice_exchange.NEGOTIATION(share="29 %", fusion=fusion)


def test_negotiation_without_sizes_names_no_values() -> None:
    (words,) = sentences(communication=communication(negotiation_share_ratio=0.3))
    assert words == advice_exchange.NEGOTIATION(share="30 %", fusion=advice_exchange.ONE_BATCH())


def test_tuned_negotiation_of_the_paper_is_no_finding() -> None:
    assert sentences(communication=communication(negotiation_share_ratio=0.1611)) == []


def test_one_group_waits_for_ranks_and_not_for_messages() -> None:
    (words,) = sentences(communication=communication(negotiation_share_ratio=0.5, batches=20))
    assert advice_exchange.RANKS_WAIT.find_in(words)
    assert "fusion_bytes" not in words


def capture(profile: str, **values: Any) -> pd.DataFrame:
    return make_rows("captures", profile=profile, status="measured", **values)


DISTURBED: dict[str, Any] = {"quiet": "disturbed", "others_ratio": 0.31, "steal_ratio": 0.02}


def test_a_disturbed_machine_comes_before_the_runs_own_work_and_input() -> None:
    table = communication(negotiation_share_ratio=0.5, batches=20, slowest_rank=1, slowest_rank_last_ratio=1.0)
    table["slowest_rank_negotiations"] = 100
    (words,) = sentences(communication=table, captures=capture("timeline", **DISTURBED))
    assert "disturbed" in words
    assert "31 %" in words
    assert "input" not in words
    assert "straggler" not in words
    # Another profile of the same point is another run.
    assert len(sentences(communication=table, captures=capture("kernels", **DISTURBED))) == 2


def test_negotiation_on_a_quiet_machine_is_a_matter_of_the_run() -> None:
    table = communication(negotiation_share_ratio=0.5, batches=20)
    quiet = {"quiet": "quiet", "others_ratio": 0.012, "steal_ratio": 0.0}
    (words,) = sentences(communication=table, captures=capture("timeline", **quiet))
    assert advice_exchange.OTHERS_TOOK_LITTLE(share="1 %") in words
    (words,) = sentences(communication=table, captures=capture("timeline", quiet="not measured"))
    assert advice_exchange.OTHERS_UNKNOWN() in words
    assert "input" not in words


def test_input_and_kernels_of_a_disturbed_capture_begin_with_it() -> None:
    words = sentences(io=io(io_epoch_s=13.0, epoch_s=10.0), captures=capture("io", **DISTURBED))
    assert ["disturbed" in one for one in words] == [True, False]
    words = sentences(kernels=kernels({"convolution": 0.7, "other": 0.3}), captures=capture("kernels", **DISTURBED))
    assert ["disturbed" in one for one in words] == [True, False]


def test_small_messages_beside_the_gradients_are_told_apart() -> None:
    small: dict[str, Any] = {"batches": 20, "other_batches": 10, "transfer_s": 1.0, "bytes_per_step": 3e7}
    (words,) = sentences(communication=communication(**small, other_transfer_s=0.8))
    assert words == advice_exchange.SMALL_MESSAGES(per_step="1", share="80 %", cure=advice_exchange.EACH_WAITS())
    assert sentences(communication=communication(**small, other_transfer_s=0.1)) == []
    (words,) = sentences(communication=communication(**{**small, "batches": 100}, other_transfer_s=0.8))
    assert "fusion_bytes" in words


@pytest.mark.parametrize(
    ("ranks", "ratio", "seen", "found"),
    [
        (4, 0.70, 1000, True),
        (2, 0.70, 1000, True),
        (2, 0.60, 1000, False),
        (8, 0.40, 1000, False),
        (4, 0.70, 10, False),
        (2, 0.70, 20, False),
        (2, 0.90, 10, False),
        (2, 1.00, 10, True),
        (4, 0.70, np.nan, False),
        (4, np.nan, 1000, False),
    ],
)
def test_straggler(ranks: int, ratio: float, seen: float, found: bool) -> None:
    table = communication(ranks, slowest_rank=3, slowest_rank_last_ratio=ratio, slowest_rank_negotiations=seen)
    words = sentences(communication=table)
    assert len(words) == found
    if found:
        times = round(ratio * seen)
        assert words[0] == advice_exchange.STRAGGLER(rank="Rank 3", times=times, seen=seen, even=f"{100 / ranks:.0f} %")


def test_latency_bound_messages_are_compared_with_the_link() -> None:
    table = communication(batch_bytes_mean=4096.0, algorithm_bandwidth_bytes_per_s=6.3e7, bytes_per_step=4.1e4)
    (words,) = sentences(communication=table, links=make_links([2]))
    # 4096 bytes over 40 µs + 4096 bytes / (2.1 GB/s), of the best of all sizes.
    fusion = advice_exchange.ONE_BATCH_OR_TRY(settings="fusion_bytes 64 KiB")
    larger = advice_exchange.LARGER_MESSAGES(fusion=fusion)
    link: dict[str, Any] = {"size": "4 KiB", "rate": "97.6 MB/s", "share": "5 %", "full": "1 MiB"}
    assert words == advice_exchange.LATENCY_BOUND(**link, cure=larger)
    words = sentences(communication=table.assign(negotiation_share_ratio=0.3), links=make_links([2]))
    assert "fusion_bytes 64 KiB" in words[0]
    assert words[1] == advice_exchange.LATENCY_BOUND(**link, cure=advice_exchange.SAME_SETTINGS())


def test_latency_bound_single_group_is_exchanged_less_often() -> None:
    table = communication(batch_bytes_mean=4096.0, algorithm_bandwidth_bytes_per_s=6.3e7, batches=10)
    (words,) = sentences(communication=table, links=make_links([2]))
    assert advice_exchange.FEWER_EXCHANGES() in words


@pytest.mark.parametrize("links", [make_links([4]), make_links([2]).assign(scope="network"), NONE])
def test_link_of_other_ranks_or_scope_says_nothing(links: pd.DataFrame) -> None:
    table = communication(batch_bytes_mean=4096.0, algorithm_bandwidth_bytes_per_s=6.3e7)
    assert sentences(communication=table, links=links) == []


def test_size_outside_of_the_measured_ones_is_not_extrapolated() -> None:
    table = communication(batch_bytes_mean=1e12, algorithm_bandwidth_bytes_per_s=1e6)
    assert sentences(communication=table, links=make_links([2])) == []


def test_large_messages_far_below_the_link_are_held_up() -> None:
    table = communication(batch_bytes_mean=4.0**11, algorithm_bandwidth_bytes_per_s=2.0e8)
    (words,) = sentences(communication=table, links=make_links([2]))
    assert words == advice_exchange.HELD_UP(size="4 MiB", share="10 %")


def test_small_messages_far_below_the_link_are_held_up_too() -> None:
    table = communication(batch_bytes_mean=4096.0, algorithm_bandwidth_bytes_per_s=1e7, bytes_per_step=4.1e4)
    words = sentences(communication=table, links=make_links([2]))
    assert words[1] == advice_exchange.HELD_UP(size="4 KiB", share="10 %")


def test_whole_calls_are_no_measure_of_batches() -> None:
    links = make_links([2])
    table = communication(batch_bytes_mean=4096.0, algorithm_bandwidth_bytes_per_s=1e6)
    assert sentences(communication=table, links=links[links["what"] == "call"]) == []


def test_well_used_link_asks_for_fewer_bytes() -> None:
    table = communication(
        batch_bytes_mean=4.0**11, algorithm_bandwidth_bytes_per_s=1.7e9, communication_share_ratio=0.4
    )
    (words,) = sentences(communication=table, links=make_links([2]))
    assert "compression fp16" in words
    assert words == advice_exchange.LINK_USED_WELL(share="40 %", of_link="81 %")


def test_copies_of_the_fusion_buffer() -> None:
    phases = pd.concat(
        make_rows("phases", phase=f"MEMCPY_{way}_FUSION_BUFFER", share_ratio=0.15) for way in ("IN", "OUT")
    )
    (words,) = sentences(communication=communication(), phases=phases)
    assert words == advice_exchange.FUSION_COPIES(share="30 %")
    other = phases.assign(run_id="another run")
    assert sentences(communication=communication(), phases=other) == []


def test_small_communication_is_left_alone() -> None:
    (words,) = sentences(
        communication=communication(communication_share_ratio=0.02, negotiation_share_ratio=0.9, overlap_ratio=np.nan)
    )
    assert words == advice_exchange.LITTLE_COMMUNICATION(share="2 %")


def test_transfers_that_hide_behind_computation_are_left_alone() -> None:
    slow: dict[str, Any] = {"batch_bytes_mean": 4096.0, "algorithm_bandwidth_bytes_per_s": 6.3e7}
    table = communication(communication_share_ratio=0.3, overlap_ratio=0.95, **slow)
    (words,) = sentences(communication=table, links=make_links([2]))
    assert words == advice_exchange.TRANSFERS_HIDE(share="95 %")
    (words,) = sentences(communication=table.assign(negotiation_share_ratio=0.5), links=make_links([2]))
    assert advice_exchange.NEGOTIATION.find_in(words)["share"] == "50 %"


def test_negotiations_that_add_up_but_take_little_of_the_step_are_left_alone() -> None:
    values = {"negotiation_share_ratio": 0.9, "step_time_s": 1.0, "steps": 10}
    assert sentences(communication=communication(**values, negotiation_s=0.2)) == []
    assert len(sentences(communication=communication(**values, negotiation_s=2.0))) == 1


def test_overlap_is_advised_only_for_one_group_and_alone() -> None:
    values: dict[str, Any] = {"communication_share_ratio": 0.4, "overlap_ratio": 0.0, "batches": 10}
    (words,) = sentences(communication=communication(**values))
    assert words == advice_exchange.LITTLE_HIDES(share="0 %")
    assert "gradient_groups" in words
    assert sentences(communication=communication(**{**values, "batches": 100})) == []
    assert sentences(communication=communication(**{**values, "overlap_ratio": np.nan})) == []
    (words,) = sentences(communication=communication(**{**values, "negotiation_share_ratio": 0.5}))
    assert advice_exchange.RANKS_WAIT.find_in(words)


def test_input_that_takes_longer_than_the_epoch() -> None:
    (words,) = sentences(io=io(io_epoch_s=13.0, epoch_s=10.0))
    assert words == advice.INPUT_TOO_SLOW(epochs="1.3")
    assert "staging" in words
    (words,) = sentences(io=io(io_epoch_s=6.0, epoch_s=10.0))
    assert words == advice.INPUT_SLOW(share="60 %")
    assert sentences(io=io(io_epoch_s=3.0, epoch_s=10.0)) == []


def test_staged_input_is_not_told_to_stage() -> None:
    staging = io(io_epoch_s=50.0, epoch_s=10.0, data="staging")

    def words_of(**values: Any) -> list[str]:
        training = io(epoch_s=10.0, data="training input", page_cache="warm", **values)
        return sentences(io=pd.concat([staging, training]))

    assert sentences(io=staging) == []
    (words,) = words_of(io_epoch_s=13.0)
    assert words == advice.STAGED_TOO_SLOW(epochs="1.3")
    (words,) = words_of(io_epoch_s=0.3)
    assert words == advice.LITTLE_STAGED_INPUT(share="3 %")
    assert "node_local" not in "".join(words_of(io_epoch_s=6.0))


def test_ratio_without_epoch_time() -> None:
    assert sentences(io=io(io_epoch_s=3.0)) == []


def test_warm_cache_is_no_all_clear() -> None:
    assert sentences(io=io(io_epoch_s=0.3, epoch_s=10.0)) == [advice.LITTLE_INPUT(share="3 %")]
    for cache in ("warm", "unknown"):
        (words,) = sentences(io=io(io_epoch_s=0.3, epoch_s=10.0, page_cache=cache))
        assert words == advice.LITTLE_CACHED_INPUT(share="3 %", cache=cache)


def test_full_storage_needs_no_more_workers() -> None:
    table = io(io_epoch_s=13.0, epoch_s=10.0, bandwidth_parallel_bytes_per_s=1.2e9)
    words = sentences(io=table, ceilings=make_ceilings())  # node-local storage there is twice as fast
    assert words[1] == advice.STORAGE_IS_FULL(share="86 %")
    assert len(sentences(io=table.assign(page_cache="warm"), ceilings=make_ceilings())) == 1
    no_shared = make_ceilings().query("place != 'shared'")
    assert len(sentences(io=table, ceilings=no_shared)) == 1
    assert len(sentences(io=table)) == 1
    assert len(sentences(io=table.assign(bandwidth_parallel_bytes_per_s=9e9), ceilings=make_ceilings())) == 1


def test_metadata_and_small_reads() -> None:
    small: dict[str, Any] = {"read_bytes": 4e6, "reads": 1000, "opens": 100, "files": 90}
    small |= {"metadata_s": 5.0, "read_time_s": 5.0}
    words = sentences(io=io(io_epoch_s=2.0, epoch_s=10.0, **small))
    assert words[0] == advice.MANY_OPENS(share="50 %", opens=100, files=90, cure=advice.IN_PLACE)
    assert words[1] == advice.SMALL_READS(size="3.91 KiB", cure=advice.IN_PLACE)
    # Input that takes no time, or an unknown time, is no reason to change its files.
    assert sentences(io=io(io_epoch_s=0.003, epoch_s=10.0, **small)) == [advice.LITTLE_INPUT(share="0.03 %")]
    assert sentences(io=io(**small)) == []


def test_data_arrangement() -> None:
    (words,) = sentences(kernels=kernels({"convolution": 0.7, "data_arrangement": 0.18, "other": 0.12}))
    assert words == advice.ARRANGEMENT(share="18 %")


def test_unknown_kernels_are_named_before_conclusions() -> None:
    (words,) = sentences(kernels=kernels({"convolution": 0.7, "other": 0.3}))
    assert words == advice.UNKNOWN_KERNELS(share="30 %")


def test_dense_kernels_are_no_finding_unless_another_precision_is_faster() -> None:
    shares = {"convolution": 0.7, "GEMM": 0.15, "element-wise": 0.15}
    assert sentences(kernels=kernels(shares), ceilings=make_ceilings()) == [advice.NOTHING_STANDS_OUT(share="85 %")]
    (words,) = sentences(kernels=kernels(shares, precision="fp32"), ceilings=make_ceilings())
    assert words == advice.OTHER_PRECISION(share="85 %", other="bf16", times="4.1", own="fp32")
    (words,) = sentences(kernels=kernels(shares, precision="bf16"), ceilings=make_ceilings())
    assert words == advice.NOTHING_STANDS_OUT(share="85 %")


def test_short_kernels_matter_on_a_gpu_only() -> None:
    shares = {"element-wise": 0.9, "convolution": 0.1}
    (words,) = sentences(kernels=kernels(shares, calls=1e6, total_s=4.0, tool="nvprof"))
    assert words == advice.SHORT_KERNELS(time="4 µs", calls=2000000)
    assert sentences(kernels=kernels(shares, calls=1e6, total_s=4.0, tool="TensorFlow profiler")) == []


def test_settings_that_are_named_exist() -> None:
    assert {
        "fusion_bytes", "cycle_time_s", "compression", "global_batch", "accumulation", "precision",
    } <= set(Point.model_fields)  # fmt: skip
    assert {"place", "partition"} <= set(StagingSettings.model_fields)
    assert "codec" in PackSettings.model_fields
    point: dict[str, Any] = {"benchmark": "a", "variant": "b", "engine": "horovod", "nodes": 1, "ranks_per_node": 2}
    assert Point(**point, fusion_bytes="32 MiB", cycle_time_s="2 ms", compression="fp16", precision="bf16")
