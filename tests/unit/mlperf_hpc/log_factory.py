"""Made-up logs, system files and result trees for tests: all times follow from the arguments alone.

A log of the defaults complies with hpc_1.0.0, 2.0.0 and 3.0.0; OpenFold's with 3.0.0, the only rule set that has it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

START_MS = 1_700_000_000_000
"""Time of the first event: 2023-11-14 22:13:20 UTC."""
INIT_S = 20.0
TARGETS = {
    "cosmoflow": ("eval_error", 0.124),
    "deepcam": ("eval_accuracy", 0.82),
    "oc20": ("eval_error", 0.036),
    "openfold": ("eval_accuracy", 0.8),
}
"""Quality key of each benchmark and its target."""
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "cosmoflow": {
        "global_batch_size": 512,
        "train_samples": 524288,
        "eval_samples": 65536,
        "opt_name": "SGD",
        "opt_base_learning_rate": 0.006,
        "opt_learning_rate_warmup_epochs": 6,
        "opt_learning_rate_warmup_factor": 4.0,
        "opt_learning_rate_decay_boundary_epochs": [19, 21, 22, 23],
        "opt_learning_rate_decay_factor": [0.5, 0.25, 0.125, 0.0625],
        "dropout": 0.0,
        "opt_weight_decay": 0.01,
    },
    "deepcam": {
        "gradient_accumulation_frequency": 1,
        "global_batch_size": 1024,
        "batchnorm_group_size": 1,
        "train_samples": 121266,
        "eval_samples": 15158,
        "opt_name": "LAMB",
        "opt_lr": 0.004,
        "opt_betas": [0.9, 0.999],
        "opt_eps": 1e-6,
        "opt_weight_decay": 0.01,
        "opt_bias_correction": True,
        "opt_grad_averaging": True,
        "opt_max_grad_norm": 1.0,
        "scheduler_type": "multistep",
        "scheduler_lr_warmup_steps": 200,
        "scheduler_lr_warmup_factor": 1.0,
        "scheduler_milestones": [1100, 4096],
        "scheduler_decay_rate": 0.1,
    },
    "oc20": {
        "global_batch_size": 1024,
        "train_samples": 2000000,
        "eval_samples": 999866,
        "opt_name": "AdamW",
        "opt_base_learning_rate": 0.0012,
        "opt_learning_rate_warmup_steps": 7816,
        "opt_learning_rate_warmup_factor": 0.2,
        "opt_learning_rate_decay_boundary_steps": [31264, 46896],
        "opt_learning_rate_decay_factor": 0.1,
    },
    "openfold": {
        "global_batch_size": 256,
        "target_avg_lddt_ca_value": 0.8,
        "train_max_pdb_release_date": "2021-09-16",
        "val_min_cameo_submission_date": "2021-09-17",
        "val_max_cameo_submission_date": "2021-12-11",
        "val_max_sequence_length": 700,
        "val_every_iters": 40,
        "train_samples": 594595,
        "eval_samples": 180,
        "model_parameters_count": 93229082,
        "init_checkpoint_sha256sum": "b518be4677048f2c0f94889c91e2da73655a73b825a8aa7f8b6f5e580d8ffbed",
        "train_sequence_crop_size": 256,
        "num_recycling_iters": 3,
        "max_msa_clusters": 124,
        "max_extra_msa": 1024,
        "templates_enabled": True,
        "max_templates": 4,
        "fape_loss_weight": 1.0,
        "fape_loss_backbone_weight": 0.5,
        "fape_loss_sidechain_weight": 0.5,
        "supervised_chi_loss_weight": 1.0,
        "distogram_loss_weight": 0.3,
        "masked_msa_loss_weight": 2.0,
        "plddt_loss_weight": 0.01,
        "opt_name": "Adam",
        "opt_adam_beta_1": 0.9,
        "opt_adam_beta_2": 0.999,
        "opt_adam_epsilon": 1e-6,
        "opt_weight_decay": 0.0,
        "opt_amsgrad": False,
        "opt_gradient_clipping": True,
        "opt_gradient_clip_norm": 0.1,
        "swa_enabled": True,
        "swa_decay_rate": 0.9,
        "opt_base_learning_rate": 0.001,
        "opt_learning_rate_warmup_init": 0.00001,
        "opt_learning_rate_warmup_steps": 0,
        "initial_training_dataloader_type": "InitialTrainingDataloaderPT",
    },
}
"""Settings of each benchmark that the closed division admits."""
SYSTEM_FIELDS: Mapping[str, Any] = {
    "submitter": "ORG",
    "division": "closed",
    "status": "onprem",
    "system_name": "machine",
    "number_of_nodes": "4",
    "host_processors_per_node": "2",
    "host_processor_model_name": "EPYC 7742",
    "host_processor_core_count": "64",
    "host_processor_vcpu_count": "128",
    "host_processor_frequency": "2.25 GHz",
    "host_processor_caches": "256 MB",
    "host_processor_interconnect": "xGMI",
    "host_memory_capacity": "512 GB",
    "host_storage_type": "NVMe SSD",
    "host_storage_capacity": "4 TB",
    "host_networking": "InfiniBand HDR",
    "host_networking_topology": "fat tree",
    "host_memory_configuration": "16 x 32 GB",
    "accelerators_per_node": "8",
    "accelerator_model_name": "A100-SXM4-40GB",
    "accelerator_host_interconnect": "PCIe 4.0",
    "accelerator_frequency": "1410 MHz",
    "accelerator_on-chip_memories": "40 MB",
    "accelerator_memory_configuration": "HBM2",
    "accelerator_memory_capacity": "40 GB",
    "accelerator_interconnect": "NVLink",
    "accelerator_interconnect_topology": "NVSwitch",
    "cooling": "air",
    "hw_notes": "",
    "framework": "PyTorch 1.10",
    "other_software_stack": {"cuda": "11.4"},
    "operating_system": "Ubuntu 20.04",
    "sw_notes": "",
}
"""The 33 fields that a system file needs: 4 nodes of 2 processors and 8 accelerators."""


def point(time_ms: float, key: str, value: Any, **metadata: Any) -> dict[str, Any]:
    """Return a point in time."""
    return _event(time_ms, "POINT_IN_TIME", key, value, metadata)


def start(time_ms: float, key: str, **metadata: Any) -> dict[str, Any]:
    """Return the start of an interval."""
    return _event(time_ms, "INTERVAL_START", key, None, metadata)


def stop(time_ms: float, key: str, **metadata: Any) -> dict[str, Any]:
    """Return the stop of an interval."""
    return _event(time_ms, "INTERVAL_END", key, None, metadata)


def line_of(event: Mapping[str, Any]) -> str:
    """Return the line of an event, without its newline."""
    return f":::MLLOG {json.dumps(event)}"


def text_of(events: Sequence[Mapping[str, Any]]) -> str:
    """Return a log of events."""
    return "".join(f"{line_of(event)}\n" for event in events)


def default_scores(benchmark: str, epochs: int) -> list[float]:
    """Return qualities that meet the target at the last epoch and never before."""
    key, target = TARGETS[benchmark]
    step = 0.02 if key == "eval_error" else -0.02
    return [round(target + step * (epochs - 1 - epoch - 0.1), 6) for epoch in range(epochs)]


def log_events(
    benchmark: str = "cosmoflow",
    *,
    start_ms: float = START_MS,
    epochs: int = 4,
    epoch_s: float = 100.0,
    eval_s: float = 10.0,
    staging_s: float | None = 30.0,
    extra_s: float = 1.0,
    scores: Sequence[Any] | None = None,
    seed: Any = 1,
    division: str = "closed",
    status: str | None = "success",
    first_epoch: int = 1,
    org: str = "ORG",
    platform: str = "machine",
    **settings: Any,
) -> list[dict[str, Any]]:
    """Return the events of a log.

    Parameters
    ----------
    start_ms
        Time of the first event [ms]; init takes 20 s from there.
    epochs, epoch_s, eval_s
        Number of epochs, time of each [s] with its evaluation, time of the evaluation at its end [s].
    staging_s
        Staging after run_start [s]; None logs no staging.
    extra_s
        Time [s] between the last epoch and run_stop.
    scores
        One quality per epoch; by default the last alone meets the target.
    seed
        None logs no seed.
    status
        Of run_stop; None logs run_stop without a status.
    settings
        Added to those of the benchmark or in their place; None leaves one out.
    """
    values = default_scores(benchmark, epochs) if scores is None else list(scores)
    quality = TARGETS[benchmark][0]
    submission = {"benchmark": benchmark, "org": org, "division": division, "status": "onprem", "platform": platform}
    events = [point(start_ms, f"submission_{key}", value) for key, value in submission.items()]
    events += [point(start_ms, "cache_clear", True), start(start_ms, "init_start")]
    own = {"seed": seed, "number_of_nodes": 4, "accelerators_per_node": 8, **SETTINGS[benchmark], **settings}
    events += [point(start_ms + 1000, key, value) for key, value in own.items() if value is not None]
    now = start_ms + INIT_S * 1000
    events += [stop(now, "init_stop"), start(now, "run_start")]
    if staging_s is not None:
        events += [start(now, "staging_start"), stop(now + staging_s * 1000, "staging_stop")]
        now += staging_s * 1000
    for epoch, value in zip(range(first_epoch, first_epoch + epochs), values, strict=True):
        end = now + epoch_s * 1000
        events += [
            start(now, "epoch_start", epoch_num=epoch),
            start(end - eval_s * 1000, "eval_start", epoch_num=epoch),
        ]
        events += [stop(end, "eval_stop", epoch_num=epoch), point(end, quality, value, epoch_num=epoch)]
        events.append(stop(end, "epoch_stop", epoch_num=epoch))
        now = end
    ending = {} if status is None else {"status": status}
    return [*events, stop(now + extra_s * 1000, "run_stop", **ending)]


def log_text(benchmark: str = "cosmoflow", **arguments: Any) -> str:
    """Return a log; the arguments are those of :func:`log_events`."""
    return text_of(log_events(benchmark, **arguments))


def system_json(**changes: Any) -> str:
    """Return a system file of 4 nodes with 8 accelerators each; None leaves a field out."""
    fields = {key: value for key, value in {**SYSTEM_FIELDS, **changes}.items() if value is not None}
    return json.dumps(fields, indent=2)


def write_tree(
    folder: Path,
    *,
    org: str = "ORG",
    system: str = "machine",
    benchmark: str = "cosmoflow",
    scaling: str | None = "strong",
    logs: Sequence[str | bytes] = (),
    pruned: Sequence[str | bytes] = (),
    description: str | None = "",
) -> Path:
    """Write logs into a result tree without removing existing ones, and return their folder.

    Parameters
    ----------
    folder
        Root of the tree: ``ORG/results/SYSTEM/[SCALING/]BENCHMARK/result_N.txt``.
    scaling
        strong, weak, or None for the tree of v0.7.
    logs, pruned
        Contents of result_1.txt and so on; of ``pruned_results`` below them.
    description
        Content of the system file; "" for the default one, None for none.
    """
    parts = [org, "results", system, *([scaling] if scaling else []), benchmark]
    place = folder.joinpath(*parts)
    for where, contents in ((place, logs), (place / "pruned_results", pruned)):
        for number, content in enumerate(contents, start=1):
            where.mkdir(parents=True, exist_ok=True)
            words = content.encode() if isinstance(content, str) else content
            (where / f"result_{number}.txt").write_bytes(words)
    if description is not None:
        (folder / org / "systems").mkdir(parents=True, exist_ok=True)
        (folder / org / "systems" / f"{system}.json").write_text(description or system_json(submitter=org))
    return place


def _event(time_ms: float, kind: str, key: str, value: Any, metadata: Mapping[str, Any]) -> dict[str, Any]:
    place = {"file": "train.py", "lineno": 1, **metadata}
    return {
        "namespace": "",
        "time_ms": round(time_ms),
        "event_type": kind,
        "key": key,
        "value": value,
        "metadata": place,
    }
