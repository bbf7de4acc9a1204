"""The generated schema is up to date with the models and equivalent to them."""

import difflib
import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from hpcai.config.schema import json_schema
from hpcai.config.workloads import BENCHMARKS

CONFIG = Path(__file__).parents[3] / "config"


def test_schema_is_in_step():
    wanted = json.dumps(json_schema(), indent=1) + "\n"
    found = (CONFIG / "schema.json").read_text()
    lines = (text.splitlines(keepends=True) for text in (found, wanted))
    diff = "".join(difflib.unified_diff(*lines, "config/schema.json", "models"))
    assert not diff, f"run `make schema` and commit the result:\n{diff}"


FILES = [("Study", CONFIG / "study.yaml")]
FILES += [("Machine", path) for path in sorted((CONFIG / "machines").glob("*.yaml"))]
FILES += [
    (BENCHMARKS[yaml.safe_load(path.read_text())["workload"]].__name__, path)
    for path in sorted((CONFIG / "benchmarks").glob("*.yaml"))
]


@pytest.mark.parametrize(("kind", "path"), FILES, ids=lambda value: getattr(value, "stem", value))
def test_files_match_the_schema(kind, path):
    schema = json_schema()
    validator = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]})
    validator.validate(yaml.safe_load(path.read_text()))
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**yaml.safe_load(path.read_text()), "unknown_key": 1})
