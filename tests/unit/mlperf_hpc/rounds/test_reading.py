"""Trees of results of any round, or parts of them, as submissions."""

import os

import pytest
from unit.mlperf_hpc.log_factory import log_text, system_json, write_tree

from hpcai.core.errors import ParseError
from hpcai.mlperf_hpc.rounds.reading import OF_A_STUDY, read_round, visit_round
from hpcai.mlperf_hpc.rounds.source import read_start
from hpcai.mlperf_hpc.rounds.tables import REPAIR_COLUMNS, repair_table


def logs(count=2, **arguments):
    return [log_text(seed=seed, **arguments) for seed in range(count)]


def kinds(found):
    return [repair.kind for repair in found.repairs]


def names(found):
    return [(one.org, one.system_name, one.scaling, one.benchmark, len(one.runs)) for one in found.submissions]


@pytest.fixture
def flat(tmp_path):
    """A repository of the first round's layout."""
    root = tmp_path / "hpc_results_v0.7"
    write_tree(root, scaling=None, logs=logs(3))
    write_tree(
        root,
        org="A+B C",
        system="n 2",
        benchmark="deepcam",
        scaling=None,
        logs=logs(2, benchmark="deepcam", org="A+B C"),
    )
    return root


@pytest.fixture
def scaled(tmp_path):
    """A repository of the later rounds' layout, with one system in both scalings."""
    root = tmp_path / "hpc_results_v2.0"
    write_tree(root, logs=logs(3))
    write_tree(root, scaling="weak", logs=logs(4, number_of_nodes=1), pruned=logs(2))
    return root


def test_the_first_round_has_no_scaling_folders(flat):
    found = read_round(flat)
    assert (found.name, found.layout, found.source) == ("v0.7", "flat", str(flat))
    assert names(found) == [("ORG", "machine", "strong", "cosmoflow", 3), ("A+B C", "n 2", "strong", "deepcam", 2)]
    assert found.repairs == ()
    assert found.submissions[1].system.source == "A+B C/systems/n 2.json"
    assert {one.method for one in found.submissions} == {"published"}
    assert {one.origin for one in found.submissions} == {"v0.7"}
    assert found.submissions[0].runs[0].source == "ORG/results/machine/cosmoflow/result_1.txt"


def test_later_rounds_have_weak_and_pruned_instances(scaled):
    found = read_round(scaled)
    assert (found.name, found.layout, found.repairs) == ("v2.0", "scaled", ())
    assert names(found) == [("ORG", "machine", "strong", "cosmoflow", 3), ("ORG", "machine", "weak", "cosmoflow", 4)]
    weak = found.submissions[1]
    assert [run.number for run in weak.pruned] == [1, 2]
    assert weak.pruned[0].source == "ORG/results/machine/weak/cosmoflow/pruned_results/result_1.txt"
    assert weak.folder == "ORG/results/machine/weak/cosmoflow"
    assert (weak.system.units, weak.system.processors) == (32, 8)


def test_a_part_of_the_tree_is_read_as_well_as_all_of_it(scaled):
    whole = read_round(scaled)
    org = read_round(scaled / "ORG")
    assert names(org) == names(whole)
    assert org.submissions[0].system.units == 32
    for part in ("ORG/results", "ORG/results/machine"):
        found = read_round(scaled / part)
        assert names(found) == names(whole)
        assert found.name == "v2.0"
        assert kinds(found) == ["system_missing"]
    strong = read_round(scaled / "ORG/results/machine/strong/cosmoflow")
    assert names(strong) == names(whole)[:1]
    single = read_round(scaled / "ORG/results/machine/strong/cosmoflow/result_2.txt")
    assert names(single) == [("ORG", "machine", "strong", "cosmoflow", 1)]
    assert single.submissions[0].runs[0].number == 2
    pruned = read_round(scaled / "ORG/results/machine/weak/cosmoflow/pruned_results")
    assert len(pruned.submissions[0].pruned) == 2


@pytest.mark.parametrize("above", ["hpcai_v2.0", "my_hpc_results_v2.0_copy", "v2.0/work"])
def test_no_folder_names_the_round_by_chance(tmp_path, above):
    """A folder of some version of a program, or above an unrelated one, once chose the rules of that round."""
    root = tmp_path / above / "submission"
    write_tree(root, logs=logs())
    assert [read_round(root / part).name for part in ("", "ORG", "ORG/results")] == ["submission", "ORG", "results"]


@pytest.mark.parametrize("name", ["v2.0", "hpc_results_v2.0", "MLPerf_HPC_v2.0", "training_results_hpc_v2.0"])
def test_the_folder_of_the_round_names_all_its_parts(tmp_path, name):
    place = write_tree(tmp_path / name, scaling="weak", logs=logs(), pruned=logs(1))
    assert {read_round(part).name for part in (place, place / "pruned_results", place.parents[3])} == {"v2.0"}


def test_a_folder_of_logs_is_named_by_its_logs(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    for number, text in enumerate(logs(3, org="ME", platform="box"), start=1):
        (folder / f"result_{number}.txt").write_text(text)
    (folder / "result_4.txt").write_text("")
    found = read_round(folder)
    assert names(found) == [("ME", "box", "strong", "cosmoflow", 4)]
    assert found.name == "mine"
    assert kinds(found)[:2] == ["named_by_logs", "system_missing"]
    assert found.submissions[0].runs[3].claim == "incomplete"
    above = read_round(tmp_path)
    assert names(above) == [("ME", "mine", "strong", "cosmoflow", 4)]


def test_a_single_log_may_have_any_name(tmp_path):
    path = tmp_path / "mllog.txt"
    path.write_text(log_text())
    found = read_round(path, name="mine")
    assert (found.name, names(found)) == ("mine", [("ORG", "machine", "strong", "cosmoflow", 1)])
    assert kinds(found) == ["result_without_number", "named_by_logs", "system_missing"]


def test_the_readme_may_name_the_round(tmp_path):
    write_tree(tmp_path, logs=logs())
    (tmp_path / "README.md").write_text("# MLPerf™ HPC v2.0 Results\n")
    assert read_round(tmp_path).name == "v2.0"
    assert read_round(tmp_path, name="other").name == "other"


def test_numbers_sort_and_may_be_padded_or_begin_at_zero(tmp_path):
    place = write_tree(tmp_path, logs=())
    place.mkdir(parents=True)
    for name in ("result_10", "result_02", "result_0", "result_1"):
        (place / f"{name}.txt").write_text(log_text())
    assert [run.number for run in read_round(tmp_path).submissions[0].runs] == [0, 1, 2, 10]


def test_a_number_twice_is_two_runs_and_listed(tmp_path):
    place = write_tree(tmp_path, logs=logs(1))
    (place / "result_01.txt").write_text(log_text())
    found = read_round(tmp_path)
    assert len(found.submissions[0].runs) == 2
    assert kinds(found) == ["number_twice"]
    assert found.repairs[0].found == "result_01.txt, result_1.txt"


def test_junk_is_passed_over_unread(tmp_path):
    place = write_tree(tmp_path, logs=logs(1))
    for name in (".DS_Store", "._result_1.txt", "readme.txt", "compliance.out", "result_summary.csv", "result_1.txt~"):
        (place / name).write_bytes(b"\xff\0")
    (place.parents[2] / "readme.txt").write_text("no log")
    code = tmp_path / "ORG/benchmarks/cosmoflow/implementations"
    code.mkdir(parents=True)
    (code / "result_1.txt").write_text("code")
    found = read_round(tmp_path)
    assert (names(found), found.repairs) == ([("ORG", "machine", "strong", "cosmoflow", 1)], ())


def test_names_without_a_number_and_folders_are_listed(tmp_path):
    place = write_tree(tmp_path, logs=logs(1))
    (place / "result_a.txt").write_text(log_text())
    (place / "result_2.txt").mkdir()
    found = read_round(tmp_path)
    assert names(found)[0][-1] == 1
    assert sorted(kinds(found)) == ["no_file", "result_without_number"]


def test_links_out_of_the_tree_are_not_followed(tmp_path):
    root = tmp_path / "tree"
    place = write_tree(root, logs=logs(1))
    outside = tmp_path / "secret.txt"
    outside.write_text(log_text())
    (place / "result_2.txt").symlink_to(outside)
    (place / "result_3.txt").symlink_to(place / "result_1.txt")
    (place / "result_4.txt").symlink_to("nowhere")
    (place.parent / "deepcam").symlink_to(tmp_path)
    (root / "loop").symlink_to(root)
    found = read_round(root)
    assert [run.number for run in found.submissions[0].runs] == [1, 3]
    assert kinds(found) == ["link", "link"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_an_empty_run(tmp_path):
    place = write_tree(tmp_path, logs=logs(2))
    (place / "result_2.txt").chmod(0)
    found = read_round(tmp_path)
    assert [run.claim for run in found.submissions[0].runs] == ["success", "incomplete"]
    assert kinds(found) == ["unreadable_file"]


def test_a_file_that_cannot_be_read_is_an_empty_run(tmp_path, monkeypatch):
    write_tree(tmp_path, logs=logs(2))

    def refuse(path):
        if path.name == "result_2.txt":
            raise PermissionError(13, "Permission denied")
        return read_start(path)

    monkeypatch.setattr("hpcai.mlperf_hpc.rounds.source.read_start", refuse)
    found = read_round(tmp_path)
    assert [run.claim for run in found.submissions[0].runs] == ["success", "incomplete"]
    assert kinds(found) == ["unreadable_file"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (log_text().encode("utf-16"), "UTF-16"),
        (bytes(64), "binary data"),
        (b"hello", "'hello'"),
    ],
    ids=["empty", "utf-16", "binary", "words"],
)
def test_a_log_without_events_says_what_it_is(tmp_path, content, words):
    write_tree(tmp_path, logs=[log_text(), content])
    run = read_round(tmp_path).submissions[0].runs[1]
    assert next(repair.kind for repair in run.repairs) == "no_events"
    assert words in run.repairs[0].found


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "no such file or folder"),
        (lambda path: path.mkdir(), "found no log, expected result_N.txt"),
        (lambda path: path.write_bytes(b""), "an empty file"),
        (lambda path: path.write_text("hello"), "expected an MLPerf log"),
        (write_tree, "found no log"),
        (os.mkfifo, "neither a file nor a folder"),
    ],
)
def test_what_holds_no_result_is_refused(tmp_path, make, words):
    path = tmp_path / "source"
    make(path)
    with pytest.raises(ParseError, match=words) as caught:
        read_round(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("place", "is_study"), [("runs/one/fp32/n1x1/r1", True), ("runs", False)])
def test_the_results_of_a_study_are_told_from_a_folder_named_runs(tmp_path, place, is_study):
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "record.json").touch()
    with pytest.raises(ParseError) as caught:
        read_round(tmp_path)
    assert bool(OF_A_STUDY.find_in(str(caught.value))) == is_study


def test_two_rounds_in_one_folder_are_refused(tmp_path):
    for name in ("v1.0", "v2.0"):
        write_tree(tmp_path / name, logs=logs(1))
    with pytest.raises(ParseError, match="name one of the rounds"):
        read_round(tmp_path)


def test_two_layouts_in_one_tree_are_listed(tmp_path):
    write_tree(tmp_path, logs=logs(1))
    write_tree(tmp_path, org="B", scaling=None, logs=logs(1, org="B"))
    found = read_round(tmp_path)
    assert (found.layout, kinds(found)) == ("scaled", ["layout_mixed"])


def test_look_sees_every_log_once(scaled):
    seen = []
    found, counts = visit_round(scaled, lambda path, log: seen.append(path) or len(log.events))
    runs = [run for one in found.submissions for run in (*one.runs, *one.pruned)]
    assert sorted(seen) == sorted(counts) == sorted(run.source for run in runs)
    assert min(counts.values()) > 30


def test_the_penalty_of_the_reference_check_is_read(tmp_path):
    place = write_tree(tmp_path, logs=logs(1))
    (place / "scaling.json").write_text('{"scaling_factor": 1.0231}')
    assert read_round(tmp_path).submissions[0].scaling_factor == 1.0231
    for content in ('{"scaling_factor": "1.02"}', "{}", "[]", "", '{"scaling_factor": 0.5}'):
        (place / "scaling.json").write_text(content)
        found = read_round(tmp_path)
        assert found.submissions[0].scaling_factor is None
        assert kinds(found) == ["scaling_unreadable"]


def test_logs_that_contradict_their_folder_are_one_repair_of_a_submission(tmp_path):
    odd = {"org": "OTHER", "division": "open", "platform": "4xSUBMISSION_PLATFORM_PLACEHOLDER", "number_of_nodes": 8}
    write_tree(tmp_path, logs=[*logs(2, **odd), log_text()])
    found = read_round(tmp_path)
    assert kinds(found) == ["org_differs", "division_differs", "platform_placeholder", "number_of_nodes_differs"]
    assert found.repairs[0].found == "OTHER in 2, of 3 logs"
    assert found.submissions[0].division == "closed"
    assert found.submissions[0].org == "ORG"


def test_a_log_of_another_benchmark_is_listed(tmp_path):
    write_tree(tmp_path, logs=[log_text(), log_text("deepcam")])
    found = read_round(tmp_path)
    assert names(found) == [("ORG", "machine", "strong", "cosmoflow", 2)]
    assert kinds(found) == ["benchmark_differs"]


def test_an_instance_of_weak_scaling_has_a_part_of_the_machine(tmp_path):
    write_tree(tmp_path, scaling="weak", logs=logs(3, number_of_nodes=1))
    assert read_round(tmp_path).repairs == ()
    write_tree(tmp_path, scaling="weak", logs=logs(3, number_of_nodes=5, accelerators_per_node=2))
    assert kinds(read_round(tmp_path)) == ["accelerators_per_node_differs", "number_of_nodes_differs"]


def test_all_repairs_are_one_table(tmp_path):
    first, second = tmp_path / "v1.0", tmp_path / "v2.0"
    write_tree(first, logs=[log_text(), b""], description=system_json(number_of_nodes="?"))
    write_tree(second, logs=[log_text(status="odd")], description=None)
    table = repair_table([read_round(first), read_round(second)])
    assert tuple(table.columns) == REPAIR_COLUMNS
    assert list(table["origin"]) == ["v1.0"] * (len(table) - 2) + ["v2.0"] * 2
    assert list(table["kind"])[-2:] == ["system_missing", "status_unknown"]
    assert {"system_count", "no_events"} <= set(table["kind"])
    assert not table.isna().any().any()
    assert repair_table([]).empty
