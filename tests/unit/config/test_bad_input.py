"""Files that are not settings: each is refused with the project's own error, and none blocks."""

import os
import shutil
from pathlib import Path

import pytest
import yaml

from hpcai.config.load import load_study_file, refuse_loose_files
from hpcai.core.errors import ConfigError
from hpcai.core.sealed import sealed_json

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path):
    copy = tmp_path / "config"
    shutil.copytree(ROOT / "config", copy)
    return copy


BAD_TEXTS = {
    "impossible date": "name: 2026-02-31\n",
    "5,000 digits": f"seed: {'9' * 5000}\n",
    "5,000 digits in base 16": f"seed: 0x{'f' * 5000}\n",
    "deep brackets": "name: " + "[" * 5000 + "]" * 5000 + "\n",
    "list as key": "? [a, b]\n: 1\n",
    "mapping as key": "? {a: 1}\n: 1\n",
    "null as key": "~: 1\n",
    "date as key": "2026-01-01: 1\n",
    "truth as key": "on: 1\n",
    "number as key": "3: 1\n",
    "merge key": "limits: &a {run_s: 3 s}\npredict:\n  <<: *a\n",
    "key twice": "name: a\nname: b\n",
    "key twice, deeper": "limits: {run_s: 3 s, run_s: 4 s}\n",
    "tag without value": "name: !!timestamp soon\n",
    "truth that is none": "name: !!bool maybe\n",
    "number that is none": "name: !!int ''\n",
    "aliases of aliases": "a0: &a0 [x, x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)),
    "aliases of mappings": "a0: &a0 {x: 1}\n"
    + "".join(f"a{n}: &a{n} {{b: *a{n - 1}, c: *a{n - 1}}}\n" for n in range(1, 64)),
    "alias of itself": "name: &a [*a]\n",
    "template": "__use_yte__: true\n?open('/nowhere', 'w'): 1\n",
    "template that is none": "__use_yte__: false\nname: a\n",
}


@pytest.mark.parametrize("text", BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_texts_that_are_no_study(folder, text):
    study = folder / "study.yaml"
    study.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_study_file(study)
    assert str(study) in str(caught.value)


LOOSE = [
    *["merge key", "key twice", "key twice, deeper", "impossible date", "list as key", "aliases of aliases"],
    *["aliases of mappings", "alias of itself", "template", "template that is none"],
]


@pytest.mark.parametrize("kind", LOOSE)
def test_snakemake_s_files_are_read_strictly(folder, kind):
    (folder / "study.yaml").write_text(BAD_TEXTS[kind])
    with pytest.raises(ConfigError):
        refuse_loose_files([str(folder / "study.yaml")])


@pytest.mark.parametrize("place", ["study.yaml", "machines/laptop.yaml", "runs/default.tsv"])
@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "no utf-8", "nothing"])
def test_what_is_no_file_of_text_is_refused_unopened(folder, place, kind):
    path = folder / place
    path.unlink()
    make = {
        "folder": path.mkdir,
        "fifo": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
        "no utf-8": lambda: path.write_bytes("größe: 1\n".encode("latin-1")),
        "nothing": lambda: None,
    }
    make[kind]()
    with pytest.raises(ConfigError) as caught:
        load_study_file(folder / "study.yaml")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("place", ["study.yaml", "machines/laptop.yaml", "runs/default.tsv"])
def test_a_byte_order_mark_changes_nothing(folder, place):
    whole = load_study_file(folder / "study.yaml")
    path = folder / place
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_study_file(folder / "study.yaml") == whole


def test_a_study_that_a_start_wrote_is_checked_and_a_changed_digit_is_refused(folder):
    written, study = folder / "written.json", yaml.safe_load((folder / "study.yaml").read_text())
    written.write_bytes(sealed_json(study))
    assert load_study_file(written) == load_study_file(folder / "study.yaml")
    written.write_bytes(written.read_bytes().replace(b"default", b"defaulu", 1))
    for read in (load_study_file, lambda path: refuse_loose_files([path])):
        with pytest.raises(ConfigError, match="changed"):
            read(written)


@pytest.mark.parametrize("line", [0, 1])
def test_a_cell_longer_than_any(folder, line):
    table = folder / "runs/default.tsv"
    lines = [one for one in table.read_text().splitlines() if one and not one.startswith("#")]
    lines[line] += "\t" + "x" * 131_073
    table.write_text("\n".join(lines) + "\n")
    with pytest.raises(ConfigError, match=rf"line {line + 1}: .*at most 131072"):
        load_study_file(folder / "study.yaml")


def test_a_column_that_stands_twice_is_refused(folder):
    table = folder / "runs/default.tsv"
    lines = table.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if not line.startswith("#") and line.strip())
    lines[start] += "\tnodes"
    table.write_text("\n".join(lines) + "\n")
    with pytest.raises(ConfigError, match="nodes"):
        load_study_file(folder / "study.yaml")


@pytest.mark.parametrize("cell", ["9" * 5000, "inf", "nan", "1e400"])
def test_numbers_of_a_table_that_cannot_be(folder, cell):
    header = "benchmark\tvariant\tnodes\tranks_per_node\trepeats\tprecision\tcompression\tglobal_batch"
    row = f"cosmoflow_tiny\tfp32\t{cell}\t1\t1\tfp32\tnone\t4"
    (folder / "runs/default.tsv").write_text(f"{header}\n{row}\n")
    with pytest.raises(ConfigError, match="nodes"):
        load_study_file(folder / "study.yaml")


@pytest.mark.parametrize(
    "rate", [".inf", ".nan", "inf B", "1e400 B", "9" * 4000, "1 / 0 B", "((((", "9**9**9 B", "9^9^9 B", "-.inf"]
)
def test_quantities_that_cannot_be(folder, rate):
    machine = folder / "machines/laptop.yaml"
    lines = [line for line in machine.read_text().splitlines() if not line.startswith("memory_bytes")]
    machine.write_text("\n".join([*lines, f"memory_bytes: {rate}"]) + "\n")
    with pytest.raises(ConfigError, match="memory_bytes"):
        load_study_file(folder / "study.yaml")
