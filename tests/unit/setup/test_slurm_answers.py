"""Parsing the output of Slurm's commands, in several versions."""

import pytest

from hpcai.setup import slurm_answers as read


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("(null)", ()),
        ("gpu:4", (("", 4),)),
        ("gpu:a100:4(S:0-1)", (("a100", 4),)),
        ("gpu:a40:2(S:0,1),gpu:l40s:1(S:0)", (("a40", 2), ("l40s", 1))),
        ("nvme:1,gpu:h100:8(S:0-1),shard:h100:32(S:0-1),mps:800", (("h100", 8),)),
        ("gpu:1g.10gb:28(S:0-1)", (("1g.10gb", 28),)),
        ("gpu:fake:2(IDX:0-1)", (("fake", 2),)),
        ("gpu", ()),
    ],
)
def test_accelerators_of_a_gres(gres, gpus):
    assert read.read_gpus(gres) == gpus


@pytest.mark.parametrize(
    ("state", "usable"),
    [("idle", True), ("mixed", True), ("allocated", True), ("idle~", True), ("completing", True), ("reserved", True),
     ("planned", True), ("down", False), ("down*", False), ("idle*", False), ("drained", False), ("draining", False),
     ("fail", False), ("unknown", False), ("inval", False), ("maint", False), ("future", False)],
)  # fmt: skip
def test_states_of_nodes(state, usable):
    (group,) = read.read_sinfo(f"cpu*|up|3|{state}|2|18|1|191000+|0|(null)|a,b\n")
    assert (group.partition, group.nodes, group.is_usable) == ("cpu", 3, usable)
    assert (group.shape.cores, group.shape.memory_mib, group.shape.features) == (36, 191000, {"a", "b"})


def test_a_partition_that_is_not_up_has_no_usable_nodes():
    (group,) = read.read_sinfo("cpu|inact|3|idle|2|18|1|191000|0|(null)|(null)")
    assert not group.is_usable


@pytest.mark.parametrize("text", ["", "sinfo: error: x", "a|b|c", "cpu|up|n/a|idle|2|18|1|1|0|(null)|x"])
def test_other_lines_of_sinfo_are_left_out(text):
    assert read.read_sinfo(text) == ()


def test_values_of_scontrol_may_hold_blanks_and_equal_signs():
    line = (
        "NodeName=n1 CPUTot=8 OS=Linux 5.14 #1 SMP Wed May 1 19:11:28 UTC RealMemory=64000 Partitions=a,b "
        "CfgTRES=cpu=8,mem=64G Reason=disk full CPUTot=9 [root@2024]"
    )
    record = read.read_nodes(f"{line}\n\n")["n1"]
    assert record["OS"] == "Linux 5.14 #1 SMP Wed May 1 19:11:28 UTC"
    assert (record["CPUTot"], record["CfgTRES"]) == ("8", "cpu=8,mem=64G")


def test_settings_have_keys_of_any_case():
    settings = read.read_settings("Configuration data as of 2024\nMinJobAge               = 300 sec\nTmpFS = /tmp\n")
    assert settings == {"minjobage": "300 sec", "tmpfs": "/tmp"}


def test_associations_with_and_without_partition():
    text = (
        "c|a||high,normal|normal||500|\nd|b|gpu|long|long|1-00:00:00||cpu=96,mem=2T,gres/gpu=8\n\nc||x|||||\nnonsense\n"
    )
    both = read.read_associations(text)
    assert [one.cluster for one in both] == ["c", "d"]
    assert [(one.account, one.partition, one.qos, one.wall_s, one.most_jobs, one.most_of_job) for one in both] == [
        ("a", "", ("high", "normal"), None, 500, {}),
        ("b", "gpu", ("long",), 86400, None, {"cpu": 96, "gres/gpu": 8}),
    ]


def test_qos_limits_are_those_that_are_set():
    text = "normal|||||\nlong|2-00:00:00|node=4|cpu=8,node=6|4|\nbad|never|node=many|node=|many|7\nshort"
    limits = read.read_qos_limits(text)
    assert {name: (one.wall_s, one.most_of_job) for name, one in limits.items()} == {
        "normal": (None, {}),
        "long": (172800, {"node": 4}),
        "bad": (None, {}),
    }
    assert {name: (one.most_of_user, one.most_jobs) for name, one in limits.items()} == {
        "normal": ({}, {}),
        "long": ({"cpu": 8, "node": 6}, {"MaxSubmitJobsPU": 4}),
        "bad": ({}, {"MaxSubmitJobsPA": 7}),
    }


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("srun: MPI types are...\nsrun: cray_shasta\nsrun: none\nsrun: pmi2", ("cray_shasta", "none", "pmi2")),
        ("MPI plugin types are...\n\tpmix\nspecific pmix plugin versions available: pmix_v4", ("pmix", "pmix_v4")),
        ("", ()),
    ],
)
def test_mpi_types(text, types):
    assert read.read_mpi_types(text) == types
