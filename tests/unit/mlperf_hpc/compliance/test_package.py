"""Whole folders of organisations: our answer equals the package checker's text, or names where it breaks down."""

import json
import shutil

import pytest
from unit.mlperf_hpc.compliance.authority import STOPS, ask_package_checker
from unit.mlperf_hpc.log_factory import log_text, system_json, write_tree

from hpcai.mlperf_hpc.compliance.verdict import judge


def ten(**changes):
    """Ten logs that converge as the reference does."""
    return [log_text(epochs=1, first_epoch=23, seed=seed, **changes) for seed in range(10)]


def five(benchmark, last, **changes):
    return [log_text(benchmark, epochs=1, first_epoch=last, seed=seed, **changes) for seed in range(1, 6)]


BAD = log_text(seed=99, epochs=1, first_epoch=23, scores=[0.5])


def plain(folder):
    write_tree(folder, logs=ten())


def one_bad(folder):
    write_tree(folder, logs=[*ten()[:9], BAD])


def two_bad(folder):
    write_tree(folder, logs=[*ten()[:8], BAD, BAD.replace('"value": 99', '"value": 98')])


def too_few(folder):
    write_tree(folder, logs=ten()[:9])


def too_many(folder):
    write_tree(folder, logs=[*ten(), log_text(seed=77, epochs=1, first_epoch=23)])


def weak_with_more(folder):
    write_tree(folder, scaling="weak", logs=[*ten(), log_text(seed=77, epochs=1, first_epoch=23)])


def weak_with_few(folder):
    write_tree(folder, scaling="weak", logs=ten()[:9])


def pruned_bad(folder):
    write_tree(folder, scaling="weak", logs=ten(), pruned=["nothing"])


def equal_seeds(folder):
    write_tree(folder, logs=[*ten()[:9], ten()[0]])


def equal_seeds_open(folder):
    logs = [log_text(epochs=1, division="open", seed=1) for _ in range(10)]
    write_tree(folder, logs=logs, description=system_json(division="open"))


def bypassed_seeds(folder):
    place = write_tree(folder, logs=[*ten()[:9], ten()[0]])
    (place / "package_checker_params").write_text("seed-checker-bypass")


def bypass_not_understood(folder):
    place = write_tree(folder, logs=[*ten()[:9], ten()[0]])
    (place / "package_checker_params").write_text("seed-checker-bypass\n")


def too_fast(folder):
    write_tree(folder, logs=[log_text(epochs=1, first_epoch=12, seed=seed) for seed in range(10)])


def too_fast_bypassed(folder):
    too_fast(folder)
    (folder / "ORG" / "results" / "machine" / "package_checker_params").write_text("rcp-bypass")


def missing_reference(folder):
    write_tree(folder, logs=ten(global_batch_size=4096))


def scaled(folder):
    write_tree(folder, logs=[log_text(epochs=1, first_epoch=22 + n % 2, seed=n) for n in range(10)])


def field_missing(folder):
    write_tree(folder, logs=ten(), description=system_json(cooling=None))


def number_in_system(folder):
    write_tree(folder, logs=ten(), description=system_json(accelerators_per_node=8))


def no_system(folder):
    write_tree(folder, logs=ten(), description=None)
    (folder / "ORG" / "systems").mkdir()


def system_without_division(folder):
    write_tree(folder, logs=ten(), description=system_json(division=None))


def broken_system(folder):
    write_tree(folder, logs=ten(), description="{")


def foreign_folder(folder):
    write_tree(folder, scaling="middle", logs=ten())


def foreign_benchmark(folder):
    plain(folder)
    write_tree(folder, benchmark="hpl", logs=ten())


def flat(folder):
    write_tree(folder, scaling=None, logs=ten()[:3])


def log_without_number(folder):
    place = write_tree(folder, logs=ten()[:9])
    (place / "result_x.txt").write_text(log_text(seed=77, epochs=1, first_epoch=23))


def misnamed_log(folder):
    place = write_tree(folder, logs=ten())
    (place / "result_10.txt").rename(place / "result10.txt")


def package_stops_at_a_log(folder):
    write_tree(folder, logs=[*ten()[:9], log_text(seed=99, epochs=1, first_epoch=23, scores=["x"])])


def no_status(folder):
    write_tree(folder, logs=[*ten()[:9], log_text(seed=99, epochs=1, first_epoch=23, status=None)])


def aborted(folder):
    write_tree(folder, logs=[*ten()[:9], log_text(seed=99, epochs=1, first_epoch=23, status="aborted")])


def two_aborted(folder):
    write_tree(folder, logs=[*ten()[:8], *(log_text(seed=n, epochs=1, first_epoch=23, status="no") for n in (98, 99))])


def cut_off(folder):
    write_tree(folder, logs=[*ten()[:9], ten()[9][:-40]])


def several(folder):
    plain(folder)
    write_tree(folder, system="other", benchmark="deepcam", logs=five("deepcam", 13))
    write_tree(folder, system="other", benchmark="oc20", scaling="weak", logs=five("oc20", 25))


def power(folder):
    place = write_tree(folder, logs=ten())
    for number in range(1, 11):
        (place / "power" / f"result_{number}").mkdir(parents=True)
        (place / "power" / f"result_{number}" / "node_0.txt").write_text("x")


def power_incomplete(folder):
    power(folder)
    for number in (1, 2):
        shutil.rmtree(folder / "ORG/results/machine/strong/cosmoflow/power" / f"result_{number}")


def power_misnamed(folder):
    power(folder)
    (folder / "ORG/results/machine/strong/cosmoflow/power/result_1/node_x.txt").write_text("x")


def empty_folder(folder):
    write_tree(folder, logs=ten())
    (folder / "ORG/results/machine/strong/oc20").mkdir()


def folder_named_as_a_log(folder):
    (write_tree(folder, logs=ten()) / "result_50.txt").mkdir()


def link_to_nowhere(folder):
    (write_tree(folder, logs=ten()) / "result_50.txt").symlink_to("nowhere")


def empty_folder_without_system(folder):
    write_tree(folder, logs=ten())
    (folder / "ORG/results/another/strong/cosmoflow").mkdir(parents=True)


TREES = {
    empty_folder: ("stops", False),
    folder_named_as_a_log: ("stops", False),
    link_to_nowhere: ("stops", False),
    empty_folder_without_system: ("stops", False),
    plain: ("no errors", True),
    one_bad: ("no errors", True),
    two_bad: ("errors", False),
    too_few: ("errors", False),
    too_many: ("errors", False),
    weak_with_more: ("no errors", True),
    weak_with_few: ("errors", False),
    pruned_bad: ("no errors", True),
    equal_seeds: ("errors", False),
    equal_seeds_open: ("no errors", True),
    bypassed_seeds: ("no errors", True),
    bypass_not_understood: ("errors", False),
    too_fast: ("errors", False),
    too_fast_bypassed: ("no errors", True),
    missing_reference: ("errors", False),
    scaled: ("no errors", True),
    field_missing: ("errors", False),
    number_in_system: (STOPS, False),
    no_system: (STOPS, False),
    system_without_division: (STOPS, False),
    broken_system: (STOPS, False),
    foreign_folder: (STOPS, False),
    foreign_benchmark: ("no errors", True),
    flat: ("no logs", False),
    log_without_number: ("no errors", True),
    misnamed_log: ("errors", False),
    package_stops_at_a_log: (STOPS, False),
    no_status: (STOPS, False),
    aborted: ("no errors", True),
    two_aborted: ("errors", False),
    cut_off: (STOPS, False),
    several: ("no errors", True),
    power: ("no errors", True),
    power_incomplete: ("errors", False),
    power_misnamed: (STOPS, False),
}


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.__name__)
def test_answer_equals_the_package_checkers(tree, tmp_path):
    tree(tmp_path)
    answer, complies = TREES[tree]
    before = sorted(path for path in tmp_path.rglob("*"))
    verdict = judge(tmp_path / "ORG", "3.0.0")
    assert sorted(path for path in tmp_path.rglob("*")) == before, "the source was changed"
    assert verdict.package_answers == {"ORG": answer}
    assert verdict.complies is complies
    theirs = ask_package_checker(tmp_path / "ORG", "3.0.0")
    assert theirs == ("no errors" if answer == "no logs" else answer)


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.__name__)
def test_failures_have_a_place_and_a_rule(tree, tmp_path):
    tree(tmp_path)
    verdict = judge(tmp_path)
    failures = [finding for finding in verdict.all_findings() if finding.failed]
    assert bool(failures) or verdict.complies
    for finding in failures:
        assert finding.source.startswith("ORG")
        assert finding.rule
        assert finding.message
    assert json.dumps(verdict.to_json(), allow_nan=False)


def test_scaling_factor_that_is_missing_is_warned_of(tmp_path):
    scaled(tmp_path)
    folder = tmp_path / "ORG/results/machine/strong/cosmoflow"
    found = [one for one in judge(tmp_path).all_findings() if one.key == "scaling_factor"]
    assert len(found) == 1
    ask_package_checker(tmp_path / "ORG", "3.0.0")
    assert (folder / "scaling.json").exists(), "the package writes it"
    assert not [one for one in judge(tmp_path, "3.0.0").all_findings() if one.key == "scaling_factor"]
    (folder / "scaling.json").write_text('{"scaling_factor": 1.5}')
    assert [one for one in judge(tmp_path, "3.0.0").all_findings() if one.key == "scaling_factor"]


def test_another_division_in_the_logs_is_warned_of(tmp_path):
    write_tree(tmp_path, logs=ten(), description=system_json(division="open"))
    found = [one for one in judge(tmp_path).all_findings() if one.key == "submission_division"]
    assert len(found) == 10
    assert {one.severity for one in found} == {"warning"}


def test_pruned_logs_are_warned_of(tmp_path):
    pruned_bad(tmp_path)
    found = [one for one in judge(tmp_path).all_findings() if one.key == "pruned_results"]
    assert [one.source for one in found] == ["ORG/results/machine/weak/cosmoflow/pruned_results/result_1.txt"]
