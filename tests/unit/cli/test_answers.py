"""Answers as JSON: what is not known is null, and NaN never travels."""

import json

import pandas as pd
import pytest

from hpcai.cli.answers import plain_records, say_json


def test_rows_without_a_value_are_null():
    table = pd.DataFrame({"name": ["a", None], "step_s": [0.5, float("nan")]})
    rows = [{"name": "a", "step_s": 0.5}, {"name": None, "step_s": None}]
    assert plain_records(table) == rows
    assert json.loads(say_json({"steps": rows})) == {"steps": rows}


def test_nan_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        say_json({"step_s": float("nan")})
