"""What the study of all five benchmarks measures, and what the tiny study takes over of it."""

import shutil

import pandas as pd
from workflow_project import ROOT, SHORT_MEASUREMENTS, Project, edit_yaml

PROJECT_FILES = ("Snakefile", "workflow", "src", "config", "profiles", "reports", "envs")
BENCHMARKS = ("resnet50", "extreme_weather", "cosmoflow", "deepcam", "opencatalyst")
CEILINGS = ("gemm", "convolution", "memory", "storage", "allreduce_n1x2")
TINY = "cosmoflow_mini"
TIMELINES = ("resnet50", "cosmoflow", "deepcam")
# Not all kinds of each benchmark: a profiled run takes as long as a timed one. Tests marked slow add the others.
PROFILED = [
    *(f"timeline/{name}_mini/fp32" for name in TIMELINES),
    "timeline/deepcam_mini/fused",
    "timeline/resnet50_mini/mixed",
    f"kernels/{TINY}/fp32",
]


def captures_of(points):
    return [f"results/profiles/{point}/n1x2/r1/capture.json" for point in points]


def copy_project(folder):
    """Copy what a study needs of the project, so that a test may change it."""
    folder.mkdir()
    for name in PROJECT_FILES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)


def take_over(source, target):
    """Copy data, runs and characterisation of the tiny study, with their times and what Snakemake noted of them."""
    places = [".snakemake/metadata", f"data/{TINY}", f"results/runs/{TINY}", f"results/characterise/work/{TINY}.json"]
    places += [f"results/characterise/{name}.json" for name in CEILINGS]
    places += [f"results/profiles/{profile}/{TINY}" for profile in ("timeline", "kernels")]
    for place in places:
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (source / place).is_dir() else shutil.copy2
        copy(source / place, target / place)


class SpawningProject(Project):
    """A project whose ranks need no Horovod to start."""

    def snakemake(self, *arguments, **options):
        return super().snakemake(*arguments, "--default-resources", "launcher=spawn", **options)


def five_by_tensorflow(folder):
    """Make the study of all five with TensorFlow's collectives, from its data to its report; nothing fuses there."""
    shutil.copytree(ROOT / "tests/config", folder / "config")
    edit_yaml(folder / "config/five.yaml", engine="tensorflow")
    runs = folder / "config/runs/five.tsv"
    runs.write_text("".join(row for row in runs.read_text().splitlines(True) if "\tfused\t" not in row))
    project = SpawningProject(folder, study=folder / "config/five.yaml", environment=SHORT_MEASUREMENTS)
    characterise = [f"results/characterise/{name}.json" for name in (*CEILINGS[:-1], f"{CEILINGS[-1]}_tensorflow")]
    characterise += [f"results/characterise/work/{name}_mini.json" for name in BENCHMARKS]
    done = project.snakemake("measure", *characterise, *captures_of([f"kernels/{TINY}/fp32"]))
    assert done.returncode == 0, done.stdout
    done = project.snakemake("report", config=["measure=false"])
    assert done.returncode == 0, done.stdout
    return project


def engine_study(folder, engine):
    """Make the tiny study with another engine, by a copy of the project, from its data to its report."""
    copy_project(folder / "project")
    shutil.copytree(ROOT / "tests/config", folder / "config")
    edit_yaml(folder / "config/tiny.yaml", engine=engine)
    project = SpawningProject(folder, root=folder / "project", study=folder / "config/tiny.yaml")
    done = project.snakemake("all")
    assert done.returncode == 0, done.stdout
    project.output = done.stdout
    return project


def table(study, name):
    """Return a table of a study's results."""
    return pd.read_parquet(study.directory / f"results/tables/{name}.parquet")


def engine_of(study):
    """Return the engine of a study whose runs have one."""
    return table(study, "runs")["engine"].iloc[0]
