"""Read manifest and packing of CosmoFlow's official number of files as a rank does: time and memory of each way.

The files are generated rows, not samples: 524,288 training and 65,536 validation files, in 8 shards per split.
`--rehearse` makes real files instead, small ones.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rehearsal import OFFICIAL_FILES, SCALES, rehearse, start_rank

from hpcai.config.benchmark import Split
from hpcai.core.files import write_atomically
from hpcai.core.sealed import sealed_model
from hpcai.data.manifest import FileEntry, Manifest, write_manifest
from hpcai.data.packed import NO_CONTENT, PackedMember, PackManifest
from hpcai.data.table import Table
from hpcai.data.tabled import write_tabled

SHARDS = 8
GOAL_S, GOAL_MB = 10.0, 200.0


def entries(split: Split, count: int) -> Table[FileEntry]:
    """Return files as the official ones are named."""
    random = np.random.default_rng(1)
    crc = random.integers(0, 2**32, (2, count)).tolist()

    def rows() -> object:
        for number in range(count):
            yield FileEntry.model_construct(
                path=f"{split}/univ_ics_2019-03_a{10_000_000 + number:08d}_{number % 512:03d}.tfrecord",
                bytes=2_800_000 + number % 1000, crc32c=f"{crc[0][number]:08x}", records=1,
                content_bytes=16_777_500, content_crc32c=f"{crc[1][number]:08x}", record_offsets=(0,),
            )  # fmt: skip

    return Table.collected(FileEntry, rows())  # type: ignore[arg-type]


def make() -> tuple[Manifest, PackManifest]:
    """Return manifest and packing of the official number of files."""
    facts = {"dataset": "cosmoflow", "workload": "cosmoflow", "source": "generated", "edition": "gzip"}
    splits = {split: entries(split, count) for split, count in OFFICIAL_FILES.items()}
    manifest = Manifest.model_validate({**facts, "sample_shape": (128, 128, 128, 4), "splits": splits})
    shards = []
    for split, files in splits.items():
        for index in range(SHARDS):
            part = files[index::SHARDS]
            offsets = np.arange(len(part)) * 2_900_000 + 1024
            rows = (
                PackedMember.model_construct(
                    name=row.path, offset=offset, packed_bytes=row.bytes, content_bytes=row.content_bytes,
                    content_crc32c=row.content_crc32c, record_offsets=(0,),
                )
                for row, offset in zip(part, offsets.tolist(), strict=True)
            )  # fmt: skip
            shard = {"file": f"{split}-{index:05d}-of-{SHARDS:05d}.tar", "split": split, "bytes": 1, "crc32c": "0" * 8}
            shards.append({**shard, "members": Table.collected(PackedMember, rows)})
    totals = {"stored_bytes": 1, "content_bytes": 1, "packed_bytes": 1, "compression_ratio": 1.0, "pack_s": 1.0}
    digest = {"dataset": "cosmoflow", "manifest_digest": manifest.digest, "codec": "shuffle_zstd", "level": 1}
    return manifest, PackManifest.model_validate({**digest, "shards": shards, **totals})


def main() -> None:
    """Write both kinds of files, and start a rank in a process of its own on each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rank", type=Path, help=argparse.SUPPRESS)
    parser.add_argument(
        "--rehearse", choices=SCALES, help="prepare, pack, kill, continue and stage real files instead; takes minutes"
    )
    parser.add_argument("--scale", type=int, help="of the rehearsal: CosmoFlow's training files, or frames of a year")
    parser.add_argument("--folder", type=Path, help="where to work; the folder of temporary files if not given")
    options = parser.parse_args()
    if options.rank:
        rank = options.rank
        seconds, _, memory = start_rank(rank / "manifest.json", rank / "packed.json", rank / "node")
        print(f"{seconds:.2f} {memory:.0f}")
        return None
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hpcai-bench-", dir=options.folder) as name:
        folder = Path(name)
        if options.rehearse:
            return rehearse(options.rehearse, options.scale or SCALES[options.rehearse], folder)
        manifest, pack = make()
        for way in ("table", "rows in JSON"):
            place = folder / way.replace(" ", "_")
            place.mkdir()
            started_s = time.monotonic()
            if way == "table":
                write_manifest(manifest, place / "manifest.json")
                write_tabled(pack, place / "packed.json", NO_CONTENT)
            else:
                write_atomically(place / "manifest.json", sealed_model(manifest))
                write_atomically(place / "packed.json", sealed_model(pack))
            seconds, size = time.monotonic() - started_s, sum(path.stat().st_size for path in place.iterdir())
            print(f"{way}: written in {seconds:.1f} s, {size / 1e6:.0f} MB", flush=True)
            command = [sys.executable, __file__, "--rank", str(place)]
            for _ in range(3):
                start, memory = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
                goals = f"(goals {GOAL_S:g} s, {GOAL_MB:g} MB)" if way == "table" else "(as up to 10,000 files)"
                print(f"  a rank's start: {start} s, {memory} MB more memory {goals}", flush=True)
    return None


if __name__ == "__main__":
    main()
