"""Power and energy meters: what is sampled, and the reasons for missing ones."""

import csv
import threading
import time
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pynvml
import pytest
from unit.measure.slurm_jobs import Scontrol, enter_job
from unit.parsers.tool_output import hand_made
from unit.record_factory import make_plan
from unit.refusals import told

from hpcai.config.machine import this_node
from hpcai.config.runs import RunPlan
from hpcai.core.accelerators import find_accelerators
from hpcai.core.errors import LaunchError
from hpcai.measure.gpu import own_index
from hpcai.metrics.profiles.energy import power_summary
from hpcai.parsers.nvml_samples import WALL, read_nvml_samples
from hpcai.parsers.rapl import read_rapl
from hpcai.profiles.instrument import Missing
from hpcai.profiles.kind import find_instrument
from hpcai.profiles.power.meters import ELSEWHERE, SLURM_FAILS, WHAT_GIVES_IT, Meter, find_power_meters, metered

ZONES = {
    "intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:0:1": "dram",
    "intel-rapl:1": "package-1", "intel-rapl:1:0": "core", "intel-rapl:1:1": "dram",
    "intel-rapl:10": "package-10",
    "intel-rapl:2": "psys",
}  # fmt: skip
"""As the kernel lists a server: below each package its parts and its memory, beside them the platform."""
RANGE = 262143328850


def counters(folder, zones=ZONES):
    """Write counters that stand at 1000, 1001 ... uJ in the order of the zones."""
    for energy_uj, (zone, name) in enumerate(zones.items(), 1000):
        package = zone.rpartition(":")[0] if zone.count(":") > 1 else ""
        domain = folder / package / zone
        domain.mkdir(parents=True)
        (domain / "name").write_text(f"{name}\n")
        (domain / "energy_uj").write_text(f"{energy_uj}\n")
        (domain / "max_energy_range_uj").write_text(f"{RANGE}\n")


def test_every_missing_meter_has_its_reason(tmp_path):
    reasons = find_power_meters(tmp_path / "nothing")[1]
    assert f"RAPL: no package below {tmp_path / 'nothing'}" in reasons
    assert "Slurm: not inside a job" in reasons


def test_slurm_tells_the_power_of_each_node_that_knows_it(tmp_path, monkeypatch):
    scontrol = tmp_path / "scontrol"
    lines = "NodeName=a CurrentWatts=n/s AveWatts=0\nNodeName=b CurrentWatts=250 AveWatts=0\nNodeName=c CurrentWatts=0"
    scontrol.write_text(f"#!/bin/sh\ncat <<END\n{lines}\nEND\n")
    scontrol.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    meters, _ = find_power_meters(tmp_path / "nothing", find_hosts=lambda: ("a", "b", "c"))
    assert of(meters, "slurm").sample() == [(0, ""), (1, 250_000), (2, "")]
    scontrol.write_text("#!/bin/sh\necho NodeName=a CurrentWatts=n/s\n")
    _, reasons = find_power_meters(tmp_path / "nothing", find_hosts=lambda: ("a",))
    assert any("no energy-gathering plugin" in reason for reason in reasons)


def test_slurm_is_asked_for_the_nodes_of_the_run_alone(tmp_path, monkeypatch):
    """Like scontrol: it tells the nodes that it is asked for, in one job of three nodes."""
    scontrol = tmp_path / "scontrol"
    loop = 'for node in $(echo "$3" | tr , " "); do echo NodeName=$node CurrentWatts=250; done'
    scontrol.write_text(f"#!/bin/sh\n{loop}\n")
    scontrol.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2,5]")
    asked = find_hosts_of(make_plan(kind="profiled", profile="power", max_steps=4, nodes=2), monkeypatch)
    assert asked == ("n1", "n2")
    meters, _ = find_power_meters(tmp_path / "nothing", find_hosts=lambda: asked)
    assert of(meters, "slurm").sample() == [(0, 250_000), (1, 250_000)]


def find_hosts_of(plan: RunPlan, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Return the nodes that the kind asks Slurm's meter for, inside a job of n1, n2 and n5."""
    found: list[tuple[str, ...]] = []

    def meters(*, find_hosts, **_):
        found.append(tuple(find_hosts()))
        return [], ["no meter"]

    with monkeypatch.context() as patch:
        enter_job(patch, Scontrol())
        patch.setattr("hpcai.profiles.power.find_power_meters", meters)
        find_instrument(plan)
    return found[0]


def test_an_answer_on_a_part_of_the_nodes_is_no_sample(tmp_path, monkeypatch):
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\nprintf 'NodeName=%s CurrentWatts=250\\n' a b\n")
    scontrol.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    meters, _ = find_power_meters(tmp_path / "nothing", find_hosts=lambda: ("a", "b"))
    slurm = of(meters, "slurm")
    assert slurm.sample() == [(0, 250_000), (1, 250_000)]
    scontrol.write_text("#!/bin/sh\necho NodeName=b CurrentWatts=250\n")
    assert slurm.sample() == []


def test_a_job_that_slurm_does_not_describe_is_a_reason(tmp_path):
    def find_hosts():
        raise LaunchError("no answer")

    assert SLURM_FAILS(error="no answer") in find_power_meters(tmp_path / "nothing", find_hosts=find_hosts)[1]


def test_a_meter_that_fails_once_leaves_a_gap(tmp_path):
    answers = iter([[(0, 1)], OSError("busy"), [(0, 2)], *([[(0, 3)]] * 100)])

    def sample():
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    with metered([Meter("nvml", ("monotonic_s", "index", "power_mw"), sample, period_s=0.01)], tmp_path):
        time.sleep(0.1)
    values = [row["power_mw"] for row in csv.DictReader((tmp_path / "power_nvml.csv").open())]
    assert values[:2] == ["1", "2"]


def test_packages_and_their_memory_are_sampled_other_parts_are_not_and_the_platform_is_named(tmp_path):
    counters(tmp_path)
    sampled = {(name, energy_uj) for name, energy_uj, _ in of(find_power_meters(tmp_path)[0], "rapl").sample()}
    memory = {("dram-0:1", 1002), ("dram-1:1", 1005)}
    assert sampled == {("package-0", 1000), ("package-1", 1003), ("package-10", 1006), ("psys-2", 1007)} | memory


def test_the_energy_of_rapl_includes_the_memory_once_and_no_part_twice(tmp_path):
    counters(tmp_path)
    meter = of(find_power_meters(tmp_path)[0], "rapl")
    rows = [",".join(map(str, (tick, *row))) for tick, added in enumerate((0, 10**7)) for row in moved(meter, added)]
    path = tmp_path / "power_rapl.csv"
    path.write_text("\n".join([",".join(meter.columns), *rows, ""]))
    # Three packages and two memories of 10 W each; the platform contains them.
    assert power_summary(read_rapl(path).table, "rapl").mean_power_w == pytest.approx(50.0)


def moved(meter, added_uj):
    return [(name, energy_uj + added_uj, largest) for name, energy_uj, largest in meter.sample()]


def test_packages_without_a_counter_of_memory_are_sampled(tmp_path):
    counters(tmp_path, {"intel-rapl:0": "package-0", "intel-rapl:0:0": "core"})
    assert of(find_power_meters(tmp_path)[0], "rapl").sample() == [("package-0", 1000, RANGE)]


def test_a_node_on_which_the_run_does_not_start_has_no_meter_for_it(tmp_path):
    counters(tmp_path)
    meters, reasons = find_power_meters(tmp_path, find_hosts=lambda: ("another", this_node()))
    assert meters == []
    assert [reason for reason in reasons if ELSEWHERE.find_in(reason)] == [reasons[0]]
    assert "rapl" in names_of(find_power_meters(tmp_path, find_hosts=lambda: (this_node(), "another"))[0])


def test_slurm_tells_the_power_of_other_nodes_by_the_wall_clock(tmp_path, monkeypatch):
    counters(tmp_path)
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\nprintf 'NodeName=%s CurrentWatts=250\\n' a b\n")
    scontrol.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    meters, _ = find_power_meters(tmp_path, find_hosts=lambda: ("a", "b"))
    assert names_of(meters) == ["slurm"]
    before_s = time.time()
    with metered(meters, tmp_path):
        pass
    reading = read_nvml_samples(tmp_path / "power_slurm.csv")
    assert reading.facts["clock"] == WALL
    assert reading.table["time_s"].between(before_s - 1, time.time() + 1).all()


def test_a_profile_of_a_run_that_starts_elsewhere_is_missing(tmp_path, monkeypatch):
    """As with salloc on a login node, which is none of the nodes of the job."""
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    enter_job(monkeypatch, Scontrol())
    found = find_instrument(make_plan(kind="profiled", profile="power", max_steps=4))
    assert isinstance(found, Missing)
    assert told(found.reason, ELSEWHERE)["first"] == "n1"
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    here = find_instrument(make_plan(kind="profiled", profile="power", max_steps=4))
    assert ELSEWHERE.find_in(getattr(here, "reason", "")) is None


def names_of(meters):
    return [meter.instrument for meter in meters]


def test_a_counter_that_may_not_be_read_is_a_reason(tmp_path):
    counters(tmp_path)
    (tmp_path / "intel-rapl:0/energy_uj").unlink()
    reasons = find_power_meters(tmp_path)[1]
    assert any(reason.startswith("RAPL:") and "energy_uj" in reason for reason in reasons)


def test_samples_cover_begin_and_end(tmp_path):
    values = iter(range(1000))
    meter = Meter("nvml", ("monotonic_s", "index", "power_mw"), lambda: [(0, next(values))])
    before_s = time.monotonic()
    with metered([meter], tmp_path):
        time.sleep(0.25)
    rows = list(csv.DictReader((tmp_path / "power_nvml.csv").open()))
    assert len(rows) >= 3
    assert float(rows[-1]["monotonic_s"]) - float(rows[0]["monotonic_s"]) > 0.2
    assert before_s <= float(rows[0]["monotonic_s"])
    assert [int(row["power_mw"]) for row in rows] == list(range(len(rows)))


DCMI = """
    Instantaneous power reading:                   {watts} Watts
    Minimum during sampling period:                  8 Watts
    Maximum during sampling period:                412 Watts
    Average power reading over sample period:      236 Watts
    IPMI timestamp:                           Thu Jan  4 10:00:00 2024
    Sampling period:                          00000001 Seconds.
    Power reading state is:                   activated
"""
NEWER = DCMI.replace("Thu Jan  4 10:00:00 2024\n", "01/04/24 10:00:00 CET").replace("activated", "deactivated")
"""As ipmitool 1.8.19 prints it, without the line break; some controllers measure although they say deactivated."""
BARE = DCMI.replace("    ", "")


@pytest.mark.parametrize(
    ("text", "watts", "found"),
    [(DCMI, 240, [(0, 240_000)]), (NEWER, 186, [(0, 186_000)]), (BARE, 167, [(0, 167_000)]), (DCMI, 0, None)],
)
def test_ipmi_tells_the_power_of_the_node(tmp_path, monkeypatch, text, watts, found):
    tool = tmp_path / "ipmitool"
    tool.write_text(f"#!/bin/sh\n[ \"$*\" = 'dcmi power reading' ] && cat <<END\n{text.format(watts=watts)}\nEND\n")
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    meters, reasons = find_power_meters(tmp_path / "nothing")
    own = [meter for meter in meters if meter.instrument == "ipmi"]
    assert [meter.sample() for meter in own] == ([] if found is None else [found])
    assert any(reason.startswith("IPMI") for reason in reasons) == (found is None)


def test_meters_are_looked_for_in_order_and_declared_power_is_the_last_resort(tmp_path):
    order = [reason.partition(":")[0].lower() for reason in find_power_meters(tmp_path / "nothing")[1]]
    assert order == [name for name in WHAT_GIVES_IT if name in order]
    assert [*WHAT_GIVES_IT] == ["rapl", "nvml", "amd_smi", "slurm", "ipmi", "redfish", "declared"]


def of(meters, instrument):
    return next(meter for meter in meters if meter.instrument == instrument)


def permit(monkeypatch, *permitted):
    """Let NVML answer as on a node with four GPUs of 100 to 400 W, of which cgroups leave some to this process."""

    def handle(index):
        if index not in permitted:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
        return index

    def undivided(_):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    answers = {
        "Init": lambda: None,
        "DeviceGetCount": lambda: 4,
        "DeviceGetHandleByIndex": handle,
        "DeviceGetPowerUsage": lambda index: (index + 1) * 100_000,
        "DeviceGetUUID": lambda index: f"GPU-{index}",
        "DeviceGetName": lambda _: "one",
        "DeviceGetMaxMigDeviceCount": undivided,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, f"nvml{name}", answer)


@pytest.mark.parametrize("permitted", [(2,), (1, 3), (0, 1, 2, 3)])
def test_nvml_samples_what_cgroups_leave_by_the_numbers_of_the_list(tmp_path, monkeypatch, permitted):
    permit(monkeypatch, *permitted)
    sampled = dict(of(find_power_meters(tmp_path)[0], "nvml").sample())
    assert [gpu.uuid for gpu in find_accelerators()] == [f"GPU-{index}" for index in permitted]
    for number, index in enumerate(permitted):
        assert own_index({"CUDA_VISIBLE_DEVICES": f"GPU-{index}"}) == number
        assert sampled.pop(number) == (index + 1) * 100_000
    assert not sampled


def test_nvml_without_a_permitted_device_is_no_meter(tmp_path, monkeypatch):
    permit(monkeypatch)
    assert "nvml" not in [meter.instrument for meter in find_power_meters(tmp_path)[0]]


def test_amd_smi_tells_the_power_of_each_accelerator(tmp_path, monkeypatch):
    tool = tmp_path / "amd-smi"
    answer = hand_made("amd_smi_metric.json")
    tool.write_text(f"#!/bin/sh\n[ \"$*\" = 'metric --power --json' ] && cat {answer}\n")
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert of(find_power_meters(tmp_path / "nothing")[0], "amd_smi").sample() == [(0, 142_000), (1, "")]
    tool.write_text("#!/bin/sh\necho 'no accelerator'\nexit 1\n")
    assert any(reason.startswith("amd_smi") for reason in find_power_meters(tmp_path / "nothing")[1])


@pytest.fixture
def controller():
    """Return what answers as a node's management controller, and its address; without its password it refuses."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.headers["Authorization"] != "Basic " + b64encode(b"reader:secret").decode():
                return self.send_error(401)
            body = hand_made("redfish_power.json").read_bytes()
            self.send_response(200)
            self.end_headers()
            return self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/redfish/v1/Chassis/1/Power"
        server.shutdown()


def test_redfish_tells_the_power_of_the_node_to_whom_netrc_names(tmp_path, monkeypatch, controller):
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    refused = find_power_meters(tmp_path / "nothing", controller)[1]
    assert any(reason.startswith("Redfish") and "401" in reason for reason in refused)
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login reader password secret\n")
    for fragment, milliwatts in (("", 612_000), ("#/PowerControl/1", 241_000)):
        meters, _ = find_power_meters(tmp_path / "nothing", controller + fragment)
        assert of(meters, "redfish").sample() == [(0, milliwatts)]
    assert any("#/PowerControl/9" not in reason and "Redfish" in reason
               for reason in find_power_meters(tmp_path / "nothing", controller + "#/PowerControl/9")[1])  # fmt: skip
    assert any(reason.startswith("Redfish: the machine file") for reason in find_power_meters(tmp_path / "nothing")[1])
