"""Findings of Hu and Lu 2021 and whether the model reproduces them (table ``prediction_findings``)."""

from typing import Literal

import numpy as np
import pandas as pd

from hpcai.core.messages import Message
from hpcai.predict.hpl.assumptions import GOOD_RATIO, GRID_FINDING, compare_table_2, measure_leave_one_out
from hpcai.predict.hpl.published import SOURCE, read_table_2

Reproduced = Literal["yes", "no", "partly"]
ESTIMATES_TABLE_2 = "The model estimates the rates of Table 2"
EQUATIONS_HOLD = "The printed equations (4 to 8, section 4.2) give the printed results"
LINK_RAISES = "A faster host link raises the rate"
BLOCK_LOWERS = "The rate falls with the block"
NETWORK_GAINS_LITTLE = "A network beyond 100 Gbit/s gains little"
FIT_ERRORS = Message(
    "findings.fit_errors",
    "largest error {whole:.2%} of the estimates (S5); of a configuration left out of the fit {estimated:.2%} of the "
    "estimates, {real:.2%} of the measured rates",
)


def list_findings(sweeps: pd.DataFrame) -> pd.DataFrame:
    """Return one row per finding: part, finding, source_value, computed, reproduced, note, source, method.

    Parameters
    ----------
    sweeps
        The table of :func:`hpcai.predict.hpl.figures_data.sweep_figures`, with all variants.
    """
    rows = [
        *_table_2_rows(),
        *_figure_5_rows(sweeps),
        _figure_6_row(sweeps),
        *_figure_7_rows(sweeps),
        _equations_row(sweeps),
    ]
    return pd.DataFrame(rows)


def _row(
    finding: str, place: str, source_value: str, computed: str, reproduced: Reproduced, note: str
) -> dict[str, str]:
    return {
        "part": "HPL",
        "finding": finding,
        "source_value": source_value,
        "computed": computed,
        "reproduced": reproduced,
        "note": note,
        "method": "modelled",
        "source": f"{SOURCE}, {place}",
    }


def _yes_if(good: object) -> Reproduced:
    return "yes" if good else "no"


def _table_2_rows() -> list[dict[str, str]]:
    whole, table, unseen = compare_table_2(), read_table_2(), measure_leave_one_out()
    errors = {name: part["error_to_estimate_ratio"] for name, part in whole.groupby("assumption_set")}
    first = errors["S1"]
    good = int((first.abs() <= GOOD_RATIO).sum())
    differences = table["printed_difference_ratio"]
    noted = table[table["note"] != ""]
    return [
        _row(
            ESTIMATES_TABLE_2,
            "Table 2",
            f"{differences.min():.2%} to {differences.max():.2%} above the measured rates",
            f"with the source's parameters (S1) {first.min():+.1%} to {first.max():+.1%} of its estimates; {good} of "
            f"{len(first)} rows within {GOOD_RATIO:.0%}",
            "yes" if good == len(first) else "partly" if good else "no",
            GRID_FINDING,
        ),
        _row(
            "Times, rates and differences of Table 2 belong to the same runs",
            "Table 2",
            "printed",
            f"{len(noted)} of {len(table)} rows disagree with themselves",
            _yes_if(noted.empty) if noted.empty else "partly",
            "; ".join(f"row {row}: {note}" for row, note in noted[["row", "note"]].itertuples(index=False)),
        ),
        _row(
            "A fit of three parameters describes Table 2",
            "Table 2 (not claimed by the source)",
            "",
            FIT_ERRORS(whole=errors["S5"].abs().max(), estimated=unseen["estimated"], real=unseen["real"]),
            "yes",
            "a fit, not a prediction",
        ),
    ]


def _figure_5_rows(sweeps: pd.DataFrame) -> list[dict[str, str]]:
    frame = sweeps[(sweeps["figure"] == "5") & (sweeps["variant"] == "device")]
    cases = (
        ("a", LINK_RAISES, "host_link_bytes_per_s", True, {"block": 256, "gpu_multiplier": 1}),
        ("b", BLOCK_LOWERS, "block", False, {"host_link_bytes_per_s": 32e9, "gpu_multiplier": 1}),
        (
            "c",
            "The efficiency falls with faster GPUs",
            "gpu_multiplier",
            False,
            {"host_link_bytes_per_s": 32e9, "block": 256},
        ),
    )
    rows = []
    for letter, finding, along, rises, fixed in cases:
        others = [name for name in ("block", "host_link_bytes_per_s", "gpu_multiplier") if name != along]
        steps = (
            frame.sort_values(along).groupby(others)["efficiency_ratio"].apply(lambda part: np.diff(part.to_numpy()))
        )
        changes = np.concatenate(steps.to_list())
        chosen = frame[np.logical_and.reduce([frame[name] == value for name, value in fixed.items()])].sort_values(
            along
        )
        values = ", ".join(f"{value:.4f}" for value in chosen["efficiency_ratio"])
        good = np.all(changes > 0) if rises else np.all(changes < 0)
        note = (
            "" if letter != "b" else "the variants balance and pipe, which follow the printed equations, rise instead"
        )
        words = "rises" if rises else "falls"
        rows.append(_row(finding, f"Fig. 5{letter}", words, f"efficiencies {values}", _yes_if(good), note))
    return rows


def _figure_6_row(sweeps: pd.DataFrame) -> dict[str, str]:
    frame = sweeps[(sweeps["figure"] == "6") & (sweeps["variant"] == "device") & (sweeps["gpu_multiplier"] == 1)]
    rates = frame.sort_values("block")["host_link_bytes_per_s"].to_numpy()
    values = ", ".join(f"{rate / 1e9:.2f}" for rate in rates)
    return _row(
        "The host link that keeps 75 % grows with the block",
        "Fig. 6",
        "grows",
        f"{values} GB/s",
        _yes_if(np.all(np.diff(rates) > 0)),
        "the variants balance and pipe need less with a larger block",
    )


def _figure_7_rows(sweeps: pd.DataFrame) -> list[dict[str, str]]:
    frame = sweeps[(sweeps["figure"] == "7") & (sweeps["variant"] == "device")]
    rate = frame.set_index(["host_link_name", "network_bit_per_s"])["rate_flop_per_s"]
    slow, fast = (
        rate["paper_Gen3", 100e9] / rate["paper_Gen3", 10e9],
        rate["paper_Gen3", 1e12] / rate["paper_Gen3", 100e9],
    )
    link = rate["paper_Gen4S", 100e9] / rate["paper_Gen4E", 100e9] - 1
    return [
        _row(
            NETWORK_GAINS_LITTLE,
            "Fig. 7",
            "large gain from 10 to 100, small from 100 to 1000 Gbit/s",
            f"{slow:.2f} times from 10 to 100, {fast:.2f} times from 100 to 1000 Gbit/s",
            _yes_if(slow >= 1.7 and fast <= 1.12),
            "",
        ),
        _row(
            "At 100 Gbit/s a host link beyond Gen4E gains little",
            "Fig. 7",
            "little",
            f"{link:+.2%} from Gen4E to Gen4S",
            _yes_if(link < 0.01),
            "which rates Gen4E and Gen4S name is inferred",
        ),
    ]


def _equations_row(sweeps: pd.DataFrame) -> dict[str, str]:
    frame = sweeps[
        (sweeps["figure"] == "5") & (sweeps["gpu_multiplier"] == 1) & (sweeps["host_link_name"] == "paper_Gen3")
    ]
    last = {name: part.sort_values("block")["efficiency_ratio"] for name, part in frame.groupby("variant")}
    words = ", ".join(
        f"{name} {last[name].iloc[0]:.4f} to {last[name].iloc[-1]:.4f}"
        for name in ("balance", "pipe", "device")
        if name in last
    )
    rising = all(last[name].is_monotonic_increasing for name in ("balance", "pipe") if name in last)
    return _row(
        EQUATIONS_HOLD,
        "sections 4 and 5",
        "the rate falls with the block",
        f"efficiency over blocks 128 to 1024: {words}",
        "no" if rising else "partly",
        "a matrix in host memory is dominated by its transfer, which falls with the block; the results fit a matrix in "
        "GPU memory (device)",
    )
