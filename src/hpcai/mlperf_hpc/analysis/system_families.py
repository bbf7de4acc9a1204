"""Assign submissions to families of machines: by accelerator model or, without accelerators, processor model."""

import math
import re
from collections.abc import Iterable

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.mlperf_hpc.rounds.model import Round, System
from hpcai.mlperf_hpc.rounds.systems import whole_number

SYSTEM_COLUMNS = columns_of("mlperf_systems")
"""Table ``mlperf_systems``: one row per submission's system; ``source`` is the system file."""
_FORM_FACTOR = re.compile(r"[\s-]*\b(SXM\d*|PCI-?E|HBM\d*|NVL\d*|\d+\s*GB)\b.*", re.IGNORECASE)
_MAKER = re.compile(
    r"\b(NVIDIA|AMD|Intel|Fujitsu|IBM|Tesla|Quadro|Instinct|Processor|CPU|GPU)\b|\((R|TM)\)", re.IGNORECASE
)


def system_table(rounds: Iterable[Round]) -> pd.DataFrame:
    """Return the models of accelerator and processor of each submission's system.

    An accelerator of which a system has none is left out, so that its family is that of its compute units.

    Parameters
    ----------
    rounds
        Imported rounds.
    """
    rows = {
        (round_.name, submission.name): {
            "accelerator": _accelerator(submission.system),
            "processor": submission.system.processor,
            "processor_cores": _cores(submission.system.fields.get("host_processor_core_count")),
            "family": name_family(_accelerator(submission.system) or submission.system.processor),
            "source": submission.system.source,
        }
        for round_ in rounds
        for submission in round_.submissions
        if submission.system
    }
    records = [{"origin": origin, "submission": name, **fields} for (origin, name), fields in rows.items()]
    return pd.DataFrame(records, columns=list(SYSTEM_COLUMNS))


def _accelerator(system: System) -> str:
    return system.accelerator if system.accelerators_per_node != 0 else ""


def _cores(value: object) -> float:
    """Return the cores of one processor; NaN without a plausible number."""
    number = whole_number(value)
    return float(number) if number else math.nan


def name_family(model: str) -> str:
    """Return a short name that joins the spellings of one model; blank for a blank.

    Form factor, memory and power limit are dropped, so "NVIDIA A100-SXM4-80GB (400W)" and "A100-PCIE-40GB" both become
    "A100". Their difference is part of the scatter within the family.
    """
    plain = re.sub(r"\((?!R\)|TM\))[^)]*\)", " ", model)
    words = _MAKER.sub(" ", _FORM_FACTOR.sub("", plain))
    return " ".join(words.split()).strip(" -") or model.strip()
