"""Compare logged settings with the tables of the rules where the package does not: warnings, never failures.

``hpcai/rules/mlperf_hpc.yaml`` lists what each division may choose; the benchmarks declare the names of their settings
in logs.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hpcai.mlperf_hpc.benchmarks import BENCHMARKS, WORKLOAD_OF
from hpcai.mlperf_hpc.compliance.model import Finding
from hpcai.parsers.mllog import Mllog, MllogEvent
from hpcai.rules.requirement import Requirement, say
from hpcai.rules.table import Rule, rules_of

_COMMON = {
    "train_samples": "data.train_samples",
    "eval_samples": "data.validation_samples",
    "global_batch_size": "recipe.global_batch",
    "opt_name": "recipe.optimizer",
}
"""Settings logged by all benchmarks."""
PATHS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {name: {**_COMMON, **facts.log_settings} for name, facts in BENCHMARKS.items()}
)
"""Path in the table of rules, by log key; OpenFold is checked by the package alone."""
_KEYS = tuple(dict.fromkeys(key for paths in PATHS.values() for key in paths))


def read_settings(log: Mllog) -> dict[str, MllogEvent]:
    """Return the first line of each setting that the tables cover."""
    return {key: log.by_key[key][0] for key in _KEYS if key in log.by_key}


def check_settings(
    settings: Mapping[str, MllogEvent], *, source: str, benchmark: str, division: str, checked: frozenset[str]
) -> list[Finding]:
    """Compare the settings of a log with the table of its division.

    Parameters
    ----------
    settings
        First line of each setting.
    division
        "closed" or "open"; taken from the system file if there is one.
    checked
        Keys that already have failures from the package; they are not reported twice.
    """
    if benchmark not in PATHS or division not in rules_of("mlperf_hpc").levels:
        return []
    values = {path: settings[key].value for key, path in PATHS[benchmark].items() if key in settings}
    keys = {path: key for key, path in PATHS[benchmark].items() if key in settings and key not in checked}
    findings = []
    for rule in rules_of("mlperf_hpc").rules_for(WORKLOAD_OF[benchmark], division):
        if not _applies(rule, values):
            continue
        for path, required in rule.settings.items():
            if path in keys and not _allows(required, values[path]):
                event = settings[keys[path]]
                message = f"{event.key} is {say(event.value)}, the {division} division wants {required.words}"
                findings.append(
                    Finding(source, event.line, event.key, f"{rule.section} [{rule.id}]", message, "warning")
                )
    return findings


def _applies(rule: Rule, values: Mapping[str, Any]) -> bool:
    return all(path in values and _allows(required, values[path]) for path, required in rule.when.items())


def _allows(required: Requirement, value: object) -> bool:
    """Compare as logs write values: optimizers in either case, a one-element list without brackets."""
    if required.each is not None and not isinstance(value, list):
        return required.allows([value])
    return required.allows(value) or (isinstance(value, str) and required.allows(value.lower()))
