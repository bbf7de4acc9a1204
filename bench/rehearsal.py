"""Rehearse a dataset with as many files as an official one: manifest, packing, a kill in its middle, start, staging.

Each step runs in a process of its own, so that its time, processor time and memory are its own.
"""

import argparse
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hpcai.config.benchmark import PackSettings, Split
from hpcai.core.errors import StagingError
from hpcai.core.files import write_atomically
from hpcai.data.manifest import read_manifest
from hpcai.data.module import DataModule, file_checksum
from hpcai.data.pack import PACKED, pack_dataset, read_pack, require_same
from hpcai.data.prepare import MANIFEST, prepare_dataset
from hpcai.data.shards import PARTIAL, plan_shards
from hpcai.data.stage import NO_ROOM, node_part, preflight, stage_shards
from hpcai.data.texts import Paths
from hpcai.data.tfrecord import encode_records
from hpcai.workloads.cosmoflow.data.module import CosmoFlowDataModule
from hpcai.workloads.cosmoflow.data.sample import encode_sample
from hpcai.workloads.cosmoflow.settings import CosmoFlowData

TINY_CUBE = (4, 4, 4, 4)
"""Instead of CosmoFlow's 128³: the number of files is rehearsed, not their size."""
OFFICIAL_FILES: dict[Split, int] = {"train": 524_288, "validation": 65_536}
DIFFERENT_CUBES = 64
YEARS = tuple(range(1979, 1988))
SCALES = {"cosmoflow": OFFICIAL_FILES["train"], "extreme_weather": 8}
"""What is rehearsed if nothing else is asked for, see `module_of`; ExtremeWeather's years have 1,460 frames."""
NODES, LOCAL_RANKS = 8, 2
PACKINGS: dict[str, PackSettings] = {
    "cosmoflow": PackSettings(codec="shuffle_zstd", shards=8),
    "extreme_weather": PackSettings(codec="zstd", shards=16),
}
"""More shards than ExtremeWeather's files of a split, so that files are cut."""


class TinyCubes(CosmoFlowDataModule):
    """CosmoFlow's data module for cubes smaller than any official edge."""

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of ``x``."""
        return TINY_CUBE


@dataclass(frozen=True)
class Cost:
    """What a step took; processor time and memory include the processes that it waited for."""

    wall_s: float
    processor_s: float
    peak_mb: float

    def __str__(self) -> str:
        """Return the numbers with their units."""
        return f"{self.wall_s:.1f} s, {self.processor_s:.1f} s of processor time, {self.peak_mb:.0f} MB in one process"


def module_of(kind: str, scale: int, folder: Path) -> DataModule[Any]:
    """Return the data module of a rehearsal, for samples that lie there already.

    Parameters
    ----------
    kind
        ``cosmoflow`` or ``extreme_weather``.
    scale
        CosmoFlow: training files, with an eighth as many for validation. ExtremeWeather: frames of each year.
    folder
        Folder of the rehearsal.
    """
    place = {"dataset": "rehearsal", "source": "existing", "path": str(folder / "samples")}
    if kind == "cosmoflow":
        counts = {"train_samples": scale, "validation_samples": scale // 8}
        return TinyCubes(CosmoFlowData.model_validate({**place, "edition": "plain", "edge": 16, **counts}))
    # Only here, as in a job: the memory of another benchmark's libraries does not count.
    from hpcai.workloads.extreme_weather.data.module import ExtremeWeatherDataModule
    from hpcai.workloads.extreme_weather.settings import ExtremeWeatherData

    return ExtremeWeatherDataModule(
        ExtremeWeatherData.model_validate(
            {
                **place,
                "height": 768,
                "width": 1152,
                "train_years": YEARS[:-1],
                "validation_years": YEARS[-1:],
                "train_samples": scale * len(YEARS[:-1]),
                "validation_samples": scale,
            }
        )
    )


def write_samples(module: DataModule[Any], folder: Path) -> None:
    """Write the dataset of a rehearsal."""
    if not isinstance(module, TinyCubes):
        module.generate(folder)
        return
    random = np.random.default_rng(1)
    contents = [
        encode_records([encode_sample(random.poisson(0.7, TINY_CUBE).astype(np.int16), np.zeros(4, np.float32))])
        for _ in range(DIFFERENT_CUBES)
    ]
    for split in OFFICIAL_FILES:
        (folder / split).mkdir()
        for number in range(module.settings.samples(split)):
            name = f"univ_ics_2019-03_a{10_000_000 + number:08d}_{number % 512:03d}.tfrecord"
            (folder / split / name).write_bytes(contents[number % len(contents)])


def plan(module: DataModule[Any], kind: str, folder: Path) -> None:
    """Plan the shards, and check that they hold every file."""
    manifest = read_manifest(folder / MANIFEST)
    for split in OFFICIAL_FILES:
        shards = list(plan_shards(split, manifest.files(split), module, PACKINGS[kind].shards))
        assert shards[0].cut or sum(len(shard.entries) for shard in shards) == len(manifest.files(split))


def pack(module: DataModule[Any], kind: str, folder: Path, output: str) -> None:
    """Pack the samples."""
    path = folder / MANIFEST
    manifest = read_manifest(path)
    pack_dataset(manifest, module, manifest.root(path), PACKINGS[kind], folder / output)


def peak_kib() -> int:
    """Return the largest resident memory of this process since its program started; ru_maxrss includes its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def start_rank(manifest_path: Path, pack_path: Path, node: Path) -> tuple[float, float, float]:
    """Do what a rank of the first of eight nodes does before it stages.

    Returns
    -------
    elapsed and processor time [s], and additional memory [MiB]
    """
    before_kib, started_s, before_s = peak_kib(), time.monotonic(), time.process_time()
    manifest, packed = read_manifest(manifest_path), read_pack(pack_path)
    require_same(packed, manifest, pack_path)
    for split in OFFICIAL_FILES:
        pieces = node_part(packed, split, 0, NODES, "split").pieces
        offsets, records = pieces.members.lists("record_offsets")
        assert len(Paths(node, pieces.members, "name")) == len(records) == -(-len(packed.members(split)) // NODES)
        assert records.sum() == len(offsets)
    try:
        preflight(packed, node, 0, NODES, "split")
    except StagingError as error:  # rows without samples speak of more bytes than there are
        if error.code != NO_ROOM.code:
            raise
    return time.monotonic() - started_s, time.process_time() - before_s, (peak_kib() - before_kib) / 1024


def stage_part(arguments: tuple[Path, Path, int]) -> tuple[int, int]:
    """Stage the part of one local rank of one node of eight; return files and bytes."""
    source, target, rank = arguments
    packed = read_pack(source / PACKED)
    result = stage_shards(packed, source, target, rank, LOCAL_RANKS, 0, NODES, "split", 1)
    return result.files, result.bytes_written


def stage(folder: Path, source: str) -> None:
    """Stage an eighth with two ranks, as the first node of eight does."""
    preflight(read_pack(folder / source / PACKED), folder / "node", 0, NODES, "split")
    with multiprocessing.get_context("spawn").Pool(LOCAL_RANKS) as pool:
        parts = [(folder / source, folder / "node", rank) for rank in range(LOCAL_RANKS)]
        staged = pool.map(stage_part, parts, chunksize=1)
        pool.close()
        pool.join()
    files, size = (sum(column) for column in zip(*staged, strict=True))
    assert files == sum(path.is_file() for split in OFFICIAL_FILES for path in (folder / "node" / split).iterdir())
    write_atomically(folder / "staged.txt", f"{files} files, {size / 1e6:.0f} MB".encode())


def run_step(kind: str, scale: int, folder: Path, *step: str, watch: Callable[[int], None] = lambda _: None) -> Cost:
    """Run a step in its own process, which ``watch`` may end.

    Raises
    ------
    SystemExit
        If the step fails.
    """
    started_s = time.monotonic()
    command = [sys.executable, __file__, kind, str(scale), str(folder), *step]
    process = subprocess.Popen(command)
    watch(process.pid)
    _, status, used = os.wait4(process.pid, 0)
    code = process.returncode = os.waitstatus_to_exitcode(status)
    if code not in {0, -signal.SIGKILL}:
        raise SystemExit(f"{' '.join(step)}: exit status {code}")
    return Cost(time.monotonic() - started_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def killer(folder: Path, half_bytes: int) -> Callable[[int], None]:
    """Return what kills a packing once half of the bytes are in its shards."""

    def watch(process: int) -> None:
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while sum(path.stat().st_size for path in folder.glob("*" + PARTIAL)) < half_bytes:
            if os.waitid(os.P_PID, process, ended):
                return
            time.sleep(0.05)
        os.kill(process, signal.SIGKILL)

    return watch


def rehearse(kind: str, scale: int, folder: Path) -> None:
    """Run all steps in an empty folder and print what each took."""
    (folder / "samples").mkdir()
    print(f"samples generated: {run_step(kind, scale, folder, 'samples')}", flush=True)
    print(f"manifest: {run_step(kind, scale, folder, 'manifest')}", flush=True)
    manifest = read_manifest(folder / "manifest.json")
    print(f"packing planned: {run_step(kind, scale, folder, 'plan')}", flush=True)
    count, size = len(manifest.entries), manifest.entries.total("content_bytes")
    print(f"  {count:,} files, {sum(map(manifest.samples, OFFICIAL_FILES)):,} samples, {size / 1e9:.2f} GB", flush=True)
    print(f"packed: {run_step(kind, scale, folder, 'pack', 'whole')}", flush=True)
    whole = read_pack(folder / "whole" / PACKED)
    print(f"  {len(whole.shards)} shards, ratio {whole.compression_ratio:.2f}", flush=True)
    watch = killer(folder / "resumed", whole.packed_bytes // 2)
    killed = run_step(kind, scale, folder, "pack", "resumed", watch=watch)
    assert not (folder / "resumed" / PACKED).exists(), "the packing ended before it was killed"
    print(f"killed in the middle after {killed.wall_s:.1f} s", flush=True)
    print(f"continued: {run_step(kind, scale, folder, 'pack', 'resumed')}", flush=True)
    for shard in whole.shards:
        same = subprocess.run(["cmp", folder / "whole" / shard.file, folder / "resumed" / shard.file], check=False)
        assert same.returncode == 0, shard.file
        assert file_checksum(folder / "resumed" / shard.file) == (shard.bytes, shard.crc32c), shard.file
    print("  the same bytes as without the kill, with the checksums of packed.json", flush=True)
    run_step(kind, scale, folder, "start", "resumed")
    staged = run_step(kind, scale, folder, "stage", "resumed")
    print(f"staged, one node of {NODES}: {(folder / 'staged.txt').read_text()}: {staged}", flush=True)


def main() -> None:
    """Run one step; `bench_official_sizes.py --rehearse` calls them all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=PACKINGS)
    parser.add_argument("scale", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("step", choices=["samples", "manifest", "plan", "pack", "start", "stage"])
    parser.add_argument("place", nargs="?", default="")
    options = parser.parse_args()
    module = module_of(options.kind, options.scale, options.folder)
    if options.step == "samples":
        write_samples(module, options.folder / "samples")
    elif options.step == "manifest":
        prepare_dataset(options.kind, module, options.folder, Path())
    elif options.step == "plan":
        plan(module, options.kind, options.folder)
    elif options.step == "pack":
        pack(module, options.kind, options.folder, options.place)
    elif options.step == "start":
        packed = options.folder / options.place / PACKED
        elapsed_s, processor_s, more = start_rank(options.folder / MANIFEST, packed, options.folder / "node")
        print(f"a rank's start: {elapsed_s:.2f} s, {processor_s:.2f} s of processor time, {more:.0f} MB more memory")
    else:
        stage(options.folder, options.place)


if __name__ == "__main__":
    main()
