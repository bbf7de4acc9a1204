"""Darshan's view of the data by role: staged, used for training in place, or read from the dataset itself."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from unit.profiles.profile_folders import make_profile
from unit.record_factory import make_benchmark

from hpcai.core.errors import ParseError
from hpcai.parsers.reading import Reading
from hpcai.profiles.io import views as module
from hpcai.profiles.io.views import FEWER_LOGS, NOBODY_READ, io_views

WORKER = {
    "log": "a.darshan", "job": "1", "process_id": 7, "rank": 0, "processes": 1, "executable": "python", "files": 2,
    "read_bytes": 1000.0, "reads": 4, "opens": 2, "read_time_s": 0.5, "metadata_s": 0.1, "first_read_s": 1.0,
    "last_read_s": 2.0, "module": "POSIX", "is_worker": True,
}  # fmt: skip


@pytest.fixture
def views(tmp_path, monkeypatch):
    """Return views of a run with a command's options; every process that reads below one of ``read`` is a worker."""

    def make(options, read, **plan):
        def logs(paths, root):
            seen = [WORKER] if root in read else [{**WORKER, "is_worker": False, "read_bytes": 0.0}]
            return Reading(pd.DataFrame(seen), "Darshan", Path("a"), 1, 1)

        files = pd.DataFrame({"module": ["POSIX"] * 2, "file": ["x", "y"]})
        members = SimpleNamespace(total=lambda column: {"content_bytes": 300 + 200}[column])
        shards = [SimpleNamespace(split=split, bytes=size) for split, size in (("train", 80), ("validation", 20))]
        packed = SimpleNamespace(packed_bytes=100, shards=shards, members=lambda split: members)
        monkeypatch.setattr(module, "read_darshan_logs", logs)
        monkeypatch.setattr(module, "read_darshan_files", lambda *_: Reading(files, "Darshan", Path("a"), 1, 1))
        monkeypatch.setattr(module, "read_pack", lambda path: packed)
        profile = make_profile(tmp_path / "p", "io", {"a.darshan": b"x"}, tool="Darshan", **plan)
        origin = profile.record.provenance.model_copy(update={"command": tuple(options), "page_cache": "dropped"})
        profile.__dict__["record"] = profile.record.model_copy(update={"provenance": origin})
        return io_views(profile)["io"].set_index("data")

    return make


OPTIONS = ["--manifest", "/data/manifest.json", "--pack", "/data/packed/packed.json", "--scratch", "/scratch/a1"]


def test_staged_data_are_read_twice(views):
    io = views(OPTIONS, {"/data/packed", "/scratch/a1@*"})  # whichever node staged it
    assert io["page_cache"].to_dict() == {"staging": "cold", "training input": "warm"}
    assert io.loc["staging", "dataset_epochs"] == 1000 / 100
    assert io.loc["training input", "dataset_epochs"] == 1000 / 500


def test_packed_data_that_are_read_in_place_are_the_input(views):
    benchmark = make_benchmark(pack={"codec": "none"}, staging={"place": "none"})
    io = views(OPTIONS, {"/data/packed"}, benchmark=benchmark)
    assert list(io.index) == ["training input"]
    assert io.loc["training input", "page_cache"] == "cold"
    assert io.loc["training input", "dataset_epochs"] == 1000 / 80


def test_a_linked_folder_is_found_under_either_name(views, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "real")
    options = [
        "--manifest",
        "/data/manifest.json",
        "--pack",
        f"{tmp_path}/data/packed.json",
        "--scratch",
        "/scratch/a1",
    ]
    assert views(options, {f"{tmp_path}/real"}).loc["staging", "workers"] == 1


def test_logs_in_which_nobody_read_data_are_not_readable(views):
    with pytest.raises(ParseError, match=NOBODY_READ.pattern):
        views(OPTIONS, set())


def test_logs_of_a_part_of_the_ranks_are_not_those_of_all(views):
    with pytest.raises(ParseError, match=FEWER_LOGS.pattern):
        views(OPTIONS, {"/data/packed", "/scratch/a1@*"}, ranks_per_node=2)
