"""Compare verified staging from shards with `cp -r` and with four parallel unverified copies, interleaved.

All ways start from the same samples on the same file system, dropped from the page cache, and end with the same plain
files in an empty folder. None of them syncs at the end: staged data is scratch.

`--storage-mb-per-s` simulates shared storage that is slower than the node's own: the kernel then limits what the bench
reads from the disk, whichever way it reads, and leaves writes alone.
"""

import argparse
import multiprocessing
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.pool import Pool
from pathlib import Path

import numpy as np

from hpcai.config.benchmark import SPLITS, PackSettings
from hpcai.data.manifest import Manifest, ManifestHeader, make_manifest
from hpcai.data.member_codec import Codec
from hpcai.data.pack import PACKED, pack_dataset, read_pack
from hpcai.data.stage import clean_stage, node_part, preflight, stage_shards
from hpcai.data.tfrecord import read_file, write_records
from hpcai.measure.page_cache import drop_page_cache
from hpcai.workloads.cosmoflow.data.module import CosmoFlowDataModule
from hpcai.workloads.cosmoflow.data.sample import encode_sample
from hpcai.workloads.cosmoflow.settings import CosmoFlowData

SHAPE = (70, 71, 71, 4)
"""2.8 MB of int16, the mean size of the official compressed records (dlio_benchmark, cosmoflow workload)."""
LOCAL_RANKS = 2
COPIES = 4
CODECS: tuple[Codec, ...] = ("none", "shuffle_zstd", "shuffle_lz4")
VALIDATION_SHARE = 8
GOAL_CP_R, GOAL_BEST_COPY = 3.0, 0.9
IN_MEMORY = 2
"""A copy has its source and its target in the page cache."""
BLKIO = Path("/sys/fs/cgroup/blkio")
"""The blkio controller of cgroup v1."""


@dataclass(frozen=True)
class Cost:
    """Wall time of one way, and the processor time of all its processes [s]."""

    wall_s: float
    processor_s: float


Action = Callable[[Path], float]
"""Fills a folder; returns the processor time of processes that go on after it (s)."""


class BenchCubes(CosmoFlowDataModule):
    """CosmoFlow's data module for samples of that size."""

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of ``x``."""
        return SHAPE


MODULE = BenchCubes(
    CosmoFlowData(dataset="bench", source="generate", edition="plain", edge=64, train_samples=1, validation_samples=1)
)


def write_samples(root: Path, files: int) -> Manifest:
    """Write plain samples: Poisson counts of a smooth log-normal field, one of 16 per file, randomly shifted."""
    generator = np.random.default_rng(1)
    fields = [_counts(generator) for _ in range(min(16, files))]
    for split in ("train", "validation"):
        (root / split).mkdir(parents=True)
    for index in range(files):
        split = "validation" if index % VALIDATION_SHARE == 0 else "train"
        counts = np.roll(fields[index % len(fields)], int(generator.integers(1, SHAPE[0])), axis=0)
        payload = encode_sample(counts, generator.uniform(-1, 1, 4).astype(np.float32))
        write_records(root / split / f"univ_bench_{index:05d}.tfrecord", [payload], compress=False)
    facts = {"dataset": "bench", "workload": "cosmoflow", "source": "existing", "edition": "plain"}
    header = ManifestHeader.model_validate({**facts, "sample_shape": SHAPE})
    found = MODULE.find(root)
    assert found is not None
    return make_manifest(header, MODULE, root, found)


def _counts(generator: np.random.Generator) -> np.ndarray:
    modes = np.fft.rfftn(generator.normal(size=SHAPE[:3]))
    frequencies = np.meshgrid(*(np.fft.fftfreq(n) for n in SHAPE[:2]), np.fft.rfftfreq(SHAPE[2]), indexing="ij")
    wave_number = np.sqrt(sum(part**2 for part in frequencies)) + 1 / SHAPE[0]
    field = np.fft.irfftn(modes / wave_number, SHAPE[:3], axes=(0, 1, 2))
    field /= field.std()
    growth = (1.0, 0.85, 0.7, 0.55)
    density = np.stack([np.exp(1.5 * g * field - (1.5 * g) ** 2 / 2) for g in growth], axis=-1)
    return generator.poisson(density).astype(np.int16)


def copy_recursively(source: Path, target: Path) -> float:
    """Copy with `cp -r`."""
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)
    return 0.0


def copy_in_parallel(source: Path, target: Path) -> float:
    """Copy with four processes, each a quarter of every folder."""
    commands = []
    for folder in ("train", "validation"):
        (target / folder).mkdir(parents=True)
        names = sorted(str(path) for path in (source / folder).iterdir())
        quarter = -(-len(names) // COPIES)
        parts = [names[start : start + quarter] for start in range(0, len(names), quarter)]
        commands += [["cp", "-t", str(target / folder), *part] for part in parts]
    processes = [subprocess.Popen(command) for command in commands]
    if any(process.wait() for process in processes):
        raise SystemExit("cp failed")
    return 0.0


def stage_part(arguments: tuple[Path, Path, int, int]) -> float:
    """Run the staging of one local rank, in its own process; return its processor time (s)."""
    source, target, rank, threads = arguments
    started_s = time.process_time()
    pack = read_pack(source / PACKED)
    stage_shards(pack, source, target, rank, LOCAL_RANKS, 0, 1, "whole", threads)
    return time.process_time() - started_s


def stage(pool: Pool, source: Path, target: Path, threads: int) -> float:
    """Check the space and stage with two local ranks."""
    preflight(read_pack(source / PACKED), target, 0, 1, "whole")
    return sum(pool.map(stage_part, [(source, target, rank, threads) for rank in range(LOCAL_RANKS)], chunksize=1))


def measure(action: Action, sources: Iterable[Path], target: Path, memory_bytes: int) -> tuple[Cost, str]:
    """Return the times of one action from a cold source, if possible, and whether it was cold."""
    os.sync()
    temperature = "cold" if drop_page_cache(sources) == "dropped" else "warm"
    # A virtual machine gives free pages back to its host within seconds; whoever needs them next waits for them.
    np.ones(memory_bytes, np.uint8)
    started_s, before_s = time.monotonic(), _processor_s()
    elsewhere_s = action(target)
    return Cost(time.monotonic() - started_s, _processor_s() - before_s + elsewhere_s), temperature


def _processor_s() -> float:
    """Return the processor time of this process and of those that it waited for [s]."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


@contextmanager
def throttled(folder: Path, bytes_per_s: int) -> Iterator[None]:
    """Limit what this process and those that it starts read from a folder's disk."""
    group = BLKIO / f"hpcai-bench-{os.getpid()}"
    try:
        group.mkdir()
        (group / "blkio.throttle.read_bps_device").write_text(f"{_disk_of(folder)} {bytes_per_s}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        raise SystemExit(f"--storage-mb-per-s: needs root and {BLKIO} of cgroup v1 ({error})") from error
    try:
        yield
    finally:
        for process in (group / "cgroup.procs").read_text().split():  # also that which tracks shared resources
            (BLKIO / "cgroup.procs").write_text(process)
        group.rmdir()


def _disk_of(folder: Path) -> str:
    """Return the numbers of the disk that holds a folder; limits apply to disks, not to partitions."""
    device = folder.stat().st_dev
    place = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve(strict=True)
    return ((place.parent if (place / "partition").exists() else place) / "dev").read_text().strip()


def check_staged(manifest: Manifest, root: Path, source: Path, target: Path) -> None:
    """Compare every staged file with its sample, byte for byte, outside the timing."""
    pack = read_pack(source / PACKED)
    names = [piece.member.name for split in SPLITS for piece in node_part(pack, split, 0, 1, "whole").pieces]
    assert len(names) == len(manifest.entries)
    assert all(read_file(target / name) == read_file(root / name) for name in names[:: max(1, len(names) // 32)])


def main() -> None:
    """Measure all ways in each round and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="processors of each of the two local ranks")
    parser.add_argument("--folder", type=Path, help="where to work; the folder of temporary files if not given")
    parser.add_argument("--storage-mb-per-s", type=float, help="simulate shared storage that delivers no more (root)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hpcai-bench-", dir=options.folder) as name:
        slow = options.storage_mb_per_s
        if slow:
            print(f"simulated shared storage: all reads together limited to {slow:g} MB/s", flush=True)
        with throttled(Path(name), int(slow * 1e6)) if slow else nullcontext():
            run(Path(name), options.files, options.rounds, options.threads)


def run(folder: Path, files: int, rounds: int, threads: int) -> None:
    """Prepare the samples and shards in a folder, and measure there."""
    samples, target = folder / "samples", folder / "target"
    manifest = write_samples(samples, files)
    actions: dict[str, tuple[Action, list[Path]]] = {
        "cp -r": (lambda to: copy_recursively(samples, to), [samples / entry.path for entry in manifest.entries]),
        "4 cp": (lambda to: copy_in_parallel(samples, to), [samples / entry.path for entry in manifest.entries]),
    }
    context = multiprocessing.get_context("spawn")
    with context.Pool(LOCAL_RANKS) as pool:
        for codec in CODECS:
            source = folder / codec
            pack = pack_dataset(manifest, MODULE, samples, PackSettings(codec=codec), source)
            ratio, rate = pack.compression_ratio, pack.content_bytes / pack.pack_s / 1e6
            print(f"packed with {codec}: ratio {ratio:.2f}, {rate:.0f} MB/s", flush=True)
            shards = [source / shard.file for shard in pack.shards]
            actions[f"stage {codec}"] = (lambda to, source=source: stage(pool, source, to, threads), shards)
        pool.map(_warm_up, range(LOCAL_RANKS), chunksize=1)
        content_bytes = manifest.entries.total("content_bytes")
        costs: dict[str, list[Cost]] = {name: [] for name in actions}
        temperatures: set[str] = set()
        for number in range(rounds):
            for name, (action, sources) in actions.items():
                cost, temperature = measure(action, sources, target, IN_MEMORY * content_bytes)
                costs[name].append(cost)
                temperatures.add(temperature)
                if name.startswith("stage"):
                    if number == 0:
                        check_staged(manifest, samples, folder / name.removeprefix("stage "), target)
                    clean_stage(target)
                else:
                    shutil.rmtree(target)
        pool.close()
        pool.join()
    report(manifest, costs, temperatures, threads)


def _warm_up(_: int) -> None:
    """Start the processes and their imports before the timing, as in a training job."""
    time.sleep(0.2)


def report(manifest: Manifest, costs: dict[str, list[Cost]], temperatures: set[str], threads: int) -> None:
    """Print medians, and the ratios with goals."""
    content_bytes = sum(entry.content_bytes for entry in manifest.entries)
    state = " and ".join(sorted(temperatures))
    print(f"{len(manifest.entries)} files, {content_bytes / 1e6:.0f} MB, {state} cache, {threads} processors per rank")
    for name, found in costs.items():
        rates = [content_bytes / cost.wall_s / 1e6 for cost in found]
        spread = f"{min(rates):.0f} to {max(rates):.0f}"
        processor_s = statistics.median(cost.processor_s for cost in found) / content_bytes * 1e9
        print(
            f"  {name:20} {statistics.median(rates):7.0f} MB/s of sample data (median of {len(rates)}; {spread}), "
            f"{processor_s:.2f} s of processor time per GB"
        )
    walls_s = {name: np.array([cost.wall_s for cost in found]) for name, found in costs.items()}
    best_copy_s = min(np.median(walls_s[name]) for name in ("cp -r", "4 cp"))
    for codec in CODECS:
        staged_s = walls_s[f"stage {codec}"]
        against_cp, against_best = np.median(walls_s["cp -r"]) / np.median(staged_s), best_copy_s / np.median(staged_s)
        rounds = np.minimum(walls_s["cp -r"], walls_s["4 cp"]) / staged_s
        print(
            f"  stage {codec}: {against_cp:.2f} x cp -r (goal {GOAL_CP_R:g}), "
            f"{against_best:.2f} of the best unverified copy (goal {GOAL_BEST_COPY:g}), "
            f"{rounds.min():.2f} to {rounds.max():.2f} of the best of each round"
        )


if __name__ == "__main__":
    main()
