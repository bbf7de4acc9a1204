"""What users read of a finished study, as text that can be compared: each part is what one command or stage does."""

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from hpcai.campaign.doctor import diagnose
from hpcai.campaign.doctor_text import diagnosis_as_dict
from hpcai.campaign.efficiency import efficiency_table
from hpcai.catalogue.profiles import PROFILES
from hpcai.compare.study import read_study
from hpcai.config.load import load_campaign, refuse_loose_files
from hpcai.config.plan_file import read_plan
from hpcai.core.files import file_sha256
from hpcai.core.table_files import read_parquet
from hpcai.data.manifest import read_manifest, verify_dataset
from hpcai.data.pack import read_pack, require_same, require_shards
from hpcai.data.registry import data_module
from hpcai.data.stage import stage_shards
from hpcai.metrics.run_tables import read_groups, read_records, run_tables
from hpcai.metrics.scaling.contention import tell_contention
from hpcai.metrics.summary import summarise_study
from hpcai.mlperf_hpc.analysis.own_runs import own_round, read_own_groups, read_own_runs
from hpcai.mlperf_hpc.analysis.round_tables import source_tables
from hpcai.profiles.collect import Measured, collect_views, read_views
from hpcai.profiles.reading import read_profiles
from hpcai.report.figures import make_figure
from hpcai.report.material import read_material
from hpcai.report.page import make_documents

RESULTS, DATA = Path("results"), Path("data")
REPORTS = Path(__file__).parents[2] / "reports"
Answer = dict[str, str]
Part = Callable[[], Answer]


@dataclass
class Opened:
    """The files that were opened for reading while it listens; what a part never opens cannot change its answer."""

    files: set[Path] = field(default_factory=set)
    is_listening: bool = False

    def __post_init__(self) -> None:
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.is_listening and event == "open" and isinstance(arguments[0], str):
            self.files.add(Path(arguments[0]).absolute())

    def by(self, part: Part) -> tuple[Answer, set[Path]]:
        """Return a part's answer, and what it opened."""
        self.files, self.is_listening = set(), True
        try:
            return part(), self.files
        finally:
            self.is_listening = False


def parts_of(config: Path) -> dict[str, Part]:
    """Return the parts of a study whose folder is the working folder.

    Parameters
    ----------
    config
        Folder of its settings, where the study does not name one.
    """
    campaign = load_campaign(_settings(RESULTS / "study.json"), config)
    return {
        "tables of runs": _runs,
        "tables of groups": _groups,
        "own runs as a round": _own_round,
        **{f"profiles of {kind}": partial(_profiles, kind) for kind in PROFILES},
        "views": partial(_views, campaign),
        "report": _report,
        "compare": _compare,
        "plans": _plans,
        "study": _study,
        **{f"data of {name}": partial(_data, name, one) for name, one in campaign.datasets.items()},
        "doctor": _doctor,
    }


def _settings(file: Path) -> dict[str, Any]:
    return {key: value for key, value in json.loads(file.read_text()).items() if key != "content_sha256"}


def _study() -> Answer:
    """Read a study that a start wrote as `snakemake --configfile results/study.json` does."""
    refuse_loose_files([RESULTS / "study.json"])
    return {"study": json.dumps(_settings(RESULTS / "study.json"))}


def _records() -> list[Path]:
    return sorted(RESULTS.glob("runs/*/*/*/r*/record.json"))


def _found_groups() -> list[Path]:
    return sorted(RESULTS.glob("weak/*/*/*/group.json"))


def _texts(frames: Mapping[str, pd.DataFrame]) -> Answer:
    return {name: frame.to_csv(index=False) for name, frame in frames.items()}


def _runs() -> Answer:
    tables, records = run_tables(_records()), read_records(_records())
    summary = summarise_study(tables["runs"], tables["scales"], records, title="")
    return _texts(tables) | {"summary": json.dumps(summary)}


def _groups() -> Answer:
    groups = read_groups(map(str, _found_groups()))
    contention = tell_contention(groups, read_parquet(RESULTS / "tables/scales.parquet"))
    return _texts({"contention": contention, "efficiency": efficiency_table([*_records(), *_found_groups()])})


def _own_round() -> Answer:
    runs, groups = read_own_runs(_records()), read_own_groups(_found_groups())
    return _texts(source_tables([own_round(runs, groups)]))


def _profiles(kind: Any) -> Answer:
    captures = sorted(RESULTS.glob(f"profiles/{kind}/*/*/*/r*/capture.json"))
    counters = sorted(RESULTS.glob("profiles/counters/*/*/*/r*/capture.json")) if kind == "kernels" else []
    return _texts(read_profiles(kind, captures, counters))


def _views(campaign: Any) -> Answer:
    reports = sorted((RESULTS / "characterise").glob("*.json"))
    links = [file for file in reports if file.name.startswith("allreduce_")]
    measured = Measured(
        ceilings=[file for file in reports if file not in links],
        links=links,
        work=sorted((RESULTS / "characterise/work").glob("*.json")),
        scales=read_parquet(RESULTS / "tables/scales.parquet"),
        machine=campaign.machine,
        tolerance=campaign.study.limits.disturbance,
    )
    views = {name for kind in PROFILES.values() for name in kind.columns}
    files = {name: sorted(map(str, RESULTS.glob(f"characterise/*/{name}.parquet"))) for name in sorted(views)}
    return _texts(collect_views(read_views(files), measured))


def _report() -> Answer:
    """Read what the page is made from; to lay it out takes ten times as long and reads nothing more."""
    material = read_material(RESULTS, REPORTS)
    figures = [make_figure(material, path.stem, "", ()) for path in sorted(RESULTS.glob("figures/*.svg"))]
    found = _texts(material.tables) | {"summary": json.dumps(material.summary), "study": json.dumps(material.study)}
    found |= {one.name: f"{one.picture}{one.specification}" for one in figures}
    return found | {"documents": "".join(str(one.fragment) for one in make_documents(material))}


def _compare() -> Answer:
    study = read_study(RESULTS)
    return {"runs": study.runs.to_csv(), "points": study.points.to_csv(), "records": json.dumps(dict(study.records))}


def _plans() -> Answer:
    plans = sorted(path for path in RESULTS.rglob("plan.json") if path.parent.name != "raw")
    return {str(path): read_plan(path).model_dump_json() for path in plans}


def _data(name: str, benchmark: Any) -> Answer:
    """Check a dataset as its preparation does, and stage its shards as ranks do."""
    folder = DATA / name
    manifest = read_manifest(folder / "manifest.json")
    module = data_module(manifest.workload, benchmark.data)
    verify_dataset(manifest, module, manifest.root(folder / "manifest.json"))
    found = {"manifest": manifest.model_dump_json()}
    packed = folder / "packed/packed.json"
    if not packed.exists():
        return found
    pack = read_pack(packed)
    require_same(pack, manifest, packed)
    require_shards(pack, packed)
    with tempfile.TemporaryDirectory() as scratch:
        stage_shards(
            pack, packed.parent, Path(scratch, "stage"), local_rank=0, local_size=1, node_index=0, nodes=1,
            partition="whole", threads=1, progress=lambda: None,
        )  # fmt: skip
        files = sorted(path for path in Path(scratch).rglob("*") if path.is_file())
        staged = {path.name: file_sha256(path) for path in files if path.name != ".hpcai-stage"}
    return found | {"pack": pack.model_dump_json(), "staged": json.dumps(staged)}


def _doctor() -> Answer:
    found = diagnosis_as_dict(diagnose(RESULTS, check_files=True))
    return {"doctor": json.dumps({key: value for key, value in found.items() if key != "spaces"}, default=str)}
