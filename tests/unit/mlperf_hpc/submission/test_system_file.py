"""System files of machines with and without accelerators, and of several nodes."""

from unit.mlperf_hpc.submission.result_factory import make_own_record, origin_of
from unit.mlperf_hpc.submission.test_implementation_files import submission_of
from unit.record_factory import make_machine

from hpcai.mlperf_hpc.rounds.systems import is_placeholder
from hpcai.mlperf_hpc.submission.system_file import open_points, system_fields

FACTS = {"cpu_model": "EPYC 7742", "cores_physical": 64, "cores_logical": 128, "memory_bytes": 512 * 2**30,
         "cpu_frequency_max_hz": 3.4e9, "cpu_cache": "512 KB", "accelerators": "A100, 40960 MiB, 550.1"}  # fmt: skip


def fields_of(record, nodes=1):
    submission, system, _ = submission_of(record)
    return system_fields(submission, type(system)(system.name, system.results, nodes))


def test_collected_facts_fill_the_fields():
    fields = fields_of(make_own_record("oc20", 1, record=origin_of("c", machine_facts=FACTS)))
    assert fields["host_processor_model_name"] == "EPYC 7742"
    assert fields["host_memory_capacity"] == "512 GiB"
    assert fields["host_processor_frequency"] == "3.4 GHz at most"
    assert fields["accelerators_per_node"] == "0"
    assert fields["accelerator_model_name"] == "N/A"
    assert is_placeholder(fields["accelerator_model_name"])
    assert fields["host_networking"] == "N/A"
    assert "nvidia-smi" not in fields["other_software_stack"]


def test_accelerators_and_networks_are_what_the_machine_file_declares():
    device = {"kind": "gpu", "model": "A100-SXM4-40GB", "memory_bytes": "40 GiB"}
    link = {"bandwidth_bytes_per_s": "25 GB/s", "source": "data sheet, 2020"}
    machine = make_machine(device=device, accelerators_per_node=4, ranks_per_node=4, links={"network": link})
    part, whole = (
        make_own_record("oc20", 1, machine=machine, ranks_per_node=ranks, record=origin_of("c", machine_facts=FACTS))
        for ranks in (1, 4)
    )
    assert fields_of(part, nodes=2)["accelerators_per_node"] == "1"
    fields = fields_of(whole, nodes=2)
    assert (fields["number_of_nodes"], fields["accelerators_per_node"]) == ("2", "4")
    assert fields["accelerator_memory_capacity"] == "40 GiB"
    assert fields["host_networking"] == "25 GB/s in one direction (data sheet, 2020)"
    assert fields["other_software_stack"]["nvidia-smi"] == FACTS["accelerators"]
    assert fields["host_networking_topology"] == fields["accelerator_interconnect"] == ""
    notes = {point.field: point.note for point in open_points("S.json", fields)}
    assert "declare it" in notes["accelerator_interconnect"]


def test_what_runs_disagree_on_is_blank_and_open():
    submission, system, result = submission_of(make_own_record("oc20", 1, record=origin_of("c", machine_facts=FACTS)))
    other = make_own_record("oc20", 2, record=origin_of("c", machine_facts={**FACTS, "cpu_model": "Xeon"}))
    two = (*result.runs, type(result.runs[0])(other, "runs/y", 2, None, None))
    mixed = type(result)(result.benchmark, "strong", two, (), 2, "")
    fields = system_fields(submission, type(system)(system.name, (mixed,), 1))
    assert fields["host_processor_model_name"] == ""
    assert "host_processor_model_name" in {point.field for point in open_points("S.json", fields)}


def test_all_values_that_the_package_joins_are_texts():
    fields = fields_of(make_own_record("oc20", 1))
    assert all(isinstance(value, str) for name, value in fields.items() if name != "other_software_stack")
