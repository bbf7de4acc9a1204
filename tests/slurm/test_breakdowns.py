"""What ends runs from outside: each leaves a verdict, and the same command goes on with exactly what is missing.

The ranks only obey their plan (tests/stub_ranks); their program takes signals, stages and cleans up as any rank's.
"""

import json
import sys
import time
import zlib

import pytest
from slurm.campaigns import SlurmCampaign, kill_controller, target_of
from workflow_project import Project

CRASHED, CANCELLED = "slow/crashed/n2x1", "slow/cancelled/n1x1"
ORPHAN, LATE, REQUEUED = "slow/orphan/n1x2", "slow/late/n1x1", "slow/requeued/n1x1"
GREEDY = "greedy/greedy/n1x1"
ENDED_S = 240


def interruptions(campaign, run):
    """Reasons of a run's interrupted attempts."""
    files = [attempt / "interrupted.json" for attempt in campaign.attempts(run)]
    return [json.loads(file.read_text())["reason"] for file in files]


def staged_on(cluster, node):
    """Attempts that have staging folders on a node, each with the node's name."""
    names = cluster.on(node, "sh", "-c", f"ls {cluster.scratch}/hpcai 2> /dev/null || true").stdout.split()
    assert all(name.endswith(f"@{node}") for name in names)
    return [name.removesuffix(f"@{node}") for name in names]


def require_nothing_left(campaign):
    """Check that a campaign left no claim, no staged file and no rank anywhere."""
    assert not list(campaign.folder.rglob("claim.json"))
    attempts = {file.parent.name for file in campaign.folder.rglob("supervisor.json")}
    attempts |= {json.loads(file.read_text())["attempt"] for file in campaign.folder.rglob("raw/record.json")}
    for node in campaign.cluster.nodes:
        assert not attempts & set(staged_on(campaign.cluster, node))
        assert "hpcai.training" not in campaign.cluster.on(node, "ps", "-eo", "args").stdout


@pytest.fixture(scope="module")
def data(cluster, tmp_path_factory):
    """A folder with the packed data of all campaigns of this file, made without Slurm: it would start two jobs."""
    campaign = SlurmCampaign(tmp_path_factory.mktemp("data"), cluster, ["slow any 1 1"])
    local = Project(campaign.folder, study=campaign.folder / "config/tiny.yaml")
    done = local.snakemake("data/slow/packed/packed.json")
    assert done.returncode == 0, done.stdout
    return campaign.folder


@pytest.fixture(scope="module")
def hit(cluster, tmp_path_factory, data):
    """A campaign of two runs: one loses a node, the other is cancelled; both are submitted once more."""
    campaign = SlurmCampaign(tmp_path_factory.mktemp("hit"), cluster, ["slow crashed 2 1", "slow cancelled 1 1"])
    campaign.take_data(data)
    campaign.hold.touch()
    controller = campaign.start(target_of(CRASHED), target_of(CANCELLED))
    crashed = campaign.wait_until_training(CRASHED)
    nodes = cluster.run("scontrol", "show", "hostnames", cluster.show(crashed)["NodeList"]).stdout.split()
    cluster.crash(nodes[1])
    cluster.run("scancel", campaign.wait_until_training(CANCELLED))
    ended = campaign.folder / f"results/runs/{CANCELLED}"
    cluster.wait_for(lambda: list(ended.rglob("interrupted.json")), 60, "the cancelled run's end")
    campaign.hold.unlink()
    campaign.status, campaign.lost = controller.wait(ENDED_S), nodes[1]
    cluster.restart(nodes[1])
    cluster.wait_idle()
    return campaign


def test_a_lost_node_ends_the_attempt_and_the_next_one_runs_elsewhere(hit):
    assert hit.status == 0, hit.output
    record = hit.record(CRASHED)
    assert record.outcome == "not_converged"  # its target cannot be reached
    (earlier,) = record.earlier_attempts
    assert earlier.outcome == "interrupted"
    assert hit.lost in earlier.reason
    assert earlier.epochs >= 1
    assert hit.lost not in {rank.placement.hostname for rank in record.ranks}


def test_a_cancelled_run_is_submitted_once_more(hit):
    record = hit.record(CANCELLED)
    assert record.outcome == "not_converged"
    (earlier,) = record.earlier_attempts
    assert earlier.outcome == "interrupted"
    assert "scancel" in earlier.reason


def test_what_a_lost_node_kept_goes_with_the_next_run_there(hit):
    (earlier,) = hit.record(CRASHED).earlier_attempts
    assert staged_on(hit.cluster, hit.lost) == [earlier.attempt]
    prepare = [sys.executable, "-m", "hpcai.measure.nodes", "prepare", "--scratch", hit.cluster.scratch / "hpcai/next"]
    step = ["srun", "--nodes=1", f"--nodelist={hit.lost}", "--ntasks=1", *prepare]
    hit.cluster.run(*step, input=zlib.compress(b""), text=False)
    require_nothing_left(hit)


def test_a_killed_controllers_run_is_waited_for_and_taken(cluster, tmp_path, data):
    campaign = SlurmCampaign(tmp_path, cluster, ["slow orphan 1 2"])
    campaign.take_data(data)
    campaign.hold.touch()
    controller = campaign.start(target_of(ORPHAN))
    job = campaign.wait_until_training(ORPHAN)
    kill_controller(controller)
    (attempt,) = campaign.attempts(ORPHAN)
    status, said = campaign.hpcai("doctor")
    assert status == 2
    assert f"job {job}" in said
    assert campaign.run("--unlock") == 0, campaign.output
    controller = campaign.start(target_of(ORPHAN))
    cluster.wait_for(lambda: "waits for 1 under way" in campaign.output, 120, "the controller's wait")
    campaign.hold.unlink()
    assert controller.wait(ENDED_S) == 0, campaign.output
    record = campaign.record(ORPHAN)
    assert (record.attempt, record.earlier_attempts) == (attempt.name, ())
    assert record.provenance.environment["SLURM_JOB_ID"] == job
    require_nothing_left(campaign)


def started(folder, cluster, data, row, *options):
    """A campaign of one run, held after its first epoch, whose controller is started."""
    benchmark, variant, *_ = row.split()
    campaign = SlurmCampaign(folder, cluster, [row])
    campaign.take_data(data)
    campaign.hold.touch()
    campaign.controller = campaign.start(target_of(f"{benchmark}/{variant}/n1x1"), *options)
    return campaign


@pytest.fixture(scope="module")
def both(cluster, tmp_path_factory, data):
    """Two campaigns at the same time, each with one run that Slurm ends in its own way."""
    rows = {
        "late": ("slow late 1 1", "--retries", "0"),
        "requeued": ("slow requeued 1 1", "--set-resources", "train:slurm_extra='--exclusive --requeue'"),
    }
    campaigns = {name: started(tmp_path_factory.mktemp(name), cluster, data, *row) for name, row in rows.items()}
    requeued = campaigns["requeued"].wait_until_training(REQUEUED)
    cluster.run("scontrol", "requeue", requeued)
    late = campaigns["late"].wait_until_training(LATE)
    soon = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 2))
    cluster.run("scontrol", "update", f"JobId={late}", f"EndTime={soon}")
    cluster.wait_for(lambda: cluster.jobs()[requeued] == "PENDING", 120, "the requeued job")
    campaigns["requeued"].hold.unlink()
    cluster.run("scontrol", "update", f"JobId={requeued}", "StartTime=now")
    for campaign in campaigns.values():
        campaign.status = campaign.controller.wait(ENDED_S)
    return campaigns


def test_slurms_time_limit_is_an_interruption(both):
    campaign = both["late"]
    assert campaign.status == 1
    (reason,) = interruptions(campaign, LATE)
    assert "time limit" in reason
    assert not (campaign.folder / target_of(LATE)).exists()
    status, said = campaign.hpcai("doctor")
    assert status == 2
    assert "time limit" in said
    assert said.split("Next:")[1].count("--profile slurm") == 1
    require_nothing_left(campaign)


def test_a_requeued_job_is_one_run(both):
    campaign = both["requeued"]
    assert campaign.status == 0, campaign.output
    record = campaign.record(REQUEUED)
    assert record.outcome == "not_converged"
    (earlier,) = record.earlier_attempts
    assert earlier.outcome == "interrupted"
    assert "queue" in earlier.reason
    require_nothing_left(campaign)


@pytest.mark.slow
def test_a_job_without_memory_is_measured_again_with_more(cluster, tmp_path, data):
    options = ("--retries", "0", "--set-resources", "train:mem_mb=600")
    campaign = started(tmp_path, cluster, data, "greedy greedy 1 1", *options)
    assert campaign.controller.wait(ENDED_S) == 1
    assert not (campaign.folder / target_of(GREEDY)).exists()
    campaign.hold.unlink()
    assert campaign.run(target_of(GREEDY)) == 0, campaign.output
    record = campaign.record(GREEDY)
    assert record.outcome == "not_converged"
    (earlier,) = record.earlier_attempts
    assert earlier.outcome == "interrupted"
    assert "vanished" in earlier.reason
    require_nothing_left(campaign)
