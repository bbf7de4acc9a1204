"""The command ``hpcai predict training``: step times of a network on a machine, as a table, JSON or CSV."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pandas as pd
import typer
from pydantic import BaseModel, ValidationError

from hpcai.cli.answers import plain_records, say_json
from hpcai.cli.options import Command, TableJsonOrCsv, Texts, choice, flag, option, takes
from hpcai.core.errors import ConfigError
from hpcai.core.files import read_regular
from hpcai.core.messages import Message
from hpcai.core.sealed import unseal
from hpcai.predict.kernels.layer_times import time_layers_by_kernels
from hpcai.predict.kernels.regressor import KernelRegressor, KernelRegressors
from hpcai.predict.training.allreduce import AllreduceForm, AllreduceKind
from hpcai.predict.training.layers import LayerList, count_parameters, name_layers_without_cost
from hpcai.predict.training.networks import IMAGES, NETWORKS, build_network
from hpcai.predict.training.options import QUANTITIES, combine, read_quantities, read_samples, read_sweeps
from hpcai.predict.training.presets import PRESETS, Cluster
from hpcai.predict.training.roofline_cost import CostModel, LayerTimes, count_work, time_layers
from hpcai.predict.training.step import Optimizer, Scenario, StepModel, combine_step, predict_step, time_messages
from hpcai.predict.training.sweeps import describe_step

app = typer.Typer(rich_markup_mode=None, add_completion=False)
EXAMPLE = """\
\b
examples:
  hpcai predict training --network resnet50 --data imagenet --preset hypothetical --cost-model full
  hpcai predict training --layers results/characterise/layers/resnet50.json --batch 32 --nodes 64 \\
      --peak "15.7 TFLOP/s" --memory "900 GB/s" --link "100 Gbit/s" --latency "5 us" \\
      --sweep nodes=1,8,64,512 --sweep "link=10 Gbit/s,100 Gbit/s" --overlap --output csv
"""

Regressors = Mapping[str, KernelRegressor]
Stored = TypeVar("Stored", bound=BaseModel)
KERNELS = "kernel regressors"
WHOLE_STEPS = Message(
    "predict_training.whole_steps",
    "--spatial-parts is given with {option}, which knows whole samples only: leave one out",
)
BESIDE_REGRESSORS = Message(
    "predict_training.beside_regressors",
    "{option}: found it with --regressors, which time whole layers and their update, expected one of them",
)
PARAMETERS = tuple(quantity.parameter for quantity in QUANTITIES.values())
RESULTS = ("compute_s", "communication_s", "step_s", "epoch_s", "communication_share_ratio", "rate_samples_per_s")
"""Columns of a printed table of several scenarios, after the columns that identify them."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """Options of `hpcai predict training`."""

    network: Annotated[str | None, option("NAME", f"one of {', '.join(NETWORKS)}")] = None
    data: Annotated[str | None, option("NAME", f"its images: {', '.join(IMAGES)}")] = None
    layers: Annotated[Path | None, option("FILE", "layers of a benchmark (JSON), instead of --network")] = None
    samples: Annotated[str | None, option("N", "samples per epoch (default: from the network's dataset)")] = None
    preset: Annotated[str | None, option("NAME", f"a cluster of the source: {', '.join(PRESETS)}")] = None
    given: Annotated[
        dict[str, str], Texts({name: f"{one.help}, for example {one.example!r}" for name, one in QUANTITIES.items()})
    ]
    cost_model: Annotated[CostModel | None, choice("equations of the layers (default: gemm)")] = None
    regressors: Annotated[
        Path | None,
        option(
            "FILE",
            "kernel times fitted on a machine (results/predict/MACHINE/regressors.json), instead of the "
            "roofline; --peak and --memory then apply only to messages",
        ),
    ] = None
    allreduce: Annotated[AllreduceKind, choice("one message per layer, or one for all layers")] = "per-layer"
    form: Annotated[
        AllreduceForm, choice("form of the ring allreduce equation; the printed form does not give a time")
    ] = "corrected"
    overlap: Annotated[bool, flag("--overlap", "overlap messages with the computation of earlier layers")] = False
    input_overlap: Annotated[bool, flag("--input-overlap", "prepare samples during the previous step")] = False
    no_batch_norm_messages: Annotated[
        bool, flag("--no-batch-norm-messages", "do not exchange normalisation parameters")
    ] = False
    optimizer: Annotated[
        Optimizer | None,
        choice("optimizer whose update is counted (default: momentum with the cost model full, none with the others)"),
    ] = None
    sweep: Annotated[list[str] | None, option("NAME=A,B,C", "values of one of the options above; may be repeated")] = (
        None
    )
    per_layer: Annotated[bool, flag("--per-layer", "print one row per layer")] = False
    output: TableJsonOrCsv = "table"


@app.command(cls=Command, epilog=EXAMPLE)
@takes(Question)
def training(question: Question) -> None:
    """Model the time of a data-parallel training step: layers by the roofline, gradients by a ring allreduce.

    Barrachina et al. 2023 (doi 10.1007/s00607-021-00997-9). All times are modelled. Give rates and times with units.
    Without --preset, the options --peak, --memory, --link, --latency, --nodes and --batch are required.
    """
    _check_regressors(question)
    network, cluster = _choose_network(question), _choose_cluster(question.preset)
    model = StepModel(
        cost_model=question.cost_model or "gemm",
        allreduce=question.allreduce,
        form=question.form,
        batch_norm_messages=not question.no_batch_norm_messages,
        overlap=question.overlap,
        optimizer=question.optimizer,
        input_overlap=question.input_overlap,
    )
    sweeps = read_sweeps(question.sweep or [])
    columns = combine(read_quantities(question.given, cluster, sweeps), sweeps)
    scenario = Scenario(**columns)
    if (question.regressors or question.per_layer) and (columns["spatial_parts"] > 1).any():
        raise ConfigError(WHOLE_STEPS(option="--regressors" if question.regressors else "--per-layer"))
    regressors = _read_regressors(question.regressors) if question.regressors else None
    if question.per_layer:
        frame = _tabulate_layers(network, scenario, model, sweeps, regressors)
    else:
        samples = read_samples(question.samples, network.samples_per_epoch)
        frame = _tabulate_steps(network, scenario, model, samples, regressors)
    facts = {
        "network": network.title,
        "parameters": count_parameters(network),
        "source": network.source,
        "method": model.describe(KERNELS if regressors else ""),
        "cost_model": KERNELS if regressors else model.cost_model,
        "allreduce": model.allreduce,
        "form": model.form,
        "overlap": model.overlap,
        **({} if regressors else {"optimizer_passes": model.update_passes}),  # their update was timed
        "not_modelled": list(name_layers_without_cost(network)),
        "origins": _find_origins(question.given, cluster, sweeps),
    }
    print(_write(frame, facts, "layers" if question.per_layer else "scenarios", question.output))


def _check_regressors(question: Question) -> None:
    """Refuse options of the roofline beside regressors, where they would change nothing."""
    for name, value in (("--cost-model", question.cost_model), ("--optimizer", question.optimizer)):
        if question.regressors and value is not None:
            raise ConfigError(BESIDE_REGRESSORS(option=name))


def _choose_network(question: Question) -> LayerList:
    if question.layers and (question.network or question.data):
        raise ConfigError("--layers cannot be combined with --network or --data")
    if question.layers:
        return _read_stored(LayerList, question.layers, "layers")
    if not (question.network and question.data):
        raise ConfigError("no network: give --network and --data, or --layers with a file")
    return build_network(question.network, question.data)


def _read_stored(model: type[Stored], path: Path, what: str) -> Stored:
    """Read a file written by a study, verifying its own digest if it has one."""
    try:
        return model.model_validate_json(unseal(read_regular(path)).text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}): give a file of {what}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ConfigError(f"{path}: no {what}: {where}: {first['msg']}: expected what a study writes") from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}: start the workflow again, which makes it again") from error


def _choose_cluster(preset: str | None) -> Cluster | None:
    if preset is None:
        return None
    if preset not in PRESETS:
        raise ConfigError(f"--preset {preset!r} is unknown: choose from {', '.join(PRESETS)}")
    return PRESETS[preset]


def _read_regressors(path: Path) -> Regressors:
    found = _read_stored(KernelRegressors, path, "regressors").regressors
    if not found:
        raise ConfigError(f"{path}: no regressor: measure kernels first (study key predict.kernel_samples)")
    return found


def _tabulate_steps(
    network: LayerList, scenario: Scenario, model: StepModel, samples: int | None, regressors: Regressors | None
) -> pd.DataFrame:
    given = {quantity.parameter: getattr(scenario, quantity.parameter) for quantity in QUANTITIES.values()}
    if regressors is None:
        step = predict_step(network, scenario, model)
    else:
        times, update_s = time_layers_by_kernels(network, scenario.batch, regressors)
        step = combine_step(network, times, scenario, model, update_s, KERNELS)
    return pd.DataFrame({**given, **describe_step(step, samples)})


def _tabulate_layers(
    network: LayerList,
    scenario: Scenario,
    model: StepModel,
    sweeps: Mapping[str, object],
    regressors: Regressors | None,
) -> pd.DataFrame:
    if sweeps:
        raise ConfigError("--per-layer and --sweep are both given: layers are shown for one scenario")
    times = _time_layers(network, scenario, model, regressors)
    messages_s = time_messages(network.layers, scenario, model)[0]
    shapes = [layer.output_shape for layer in network.layers]
    frame = pd.DataFrame(
        {
            "layer": [layer.name for layer in network.layers],
            "kind": [layer.kind for layer in network.layers],
            "repeats": [layer.repeats for layer in network.layers],
            "output": ["x".join(map(str, shape)) for shape in shapes],
            "parameters": [layer.parameters for layer in network.layers],
            "forward_s": times.forward_s[0],
            "input_gradient_s": times.input_gradient_s[0],
            "weight_gradient_s": times.weight_gradient_s[0],
            "elementwise_s": times.elementwise_forward_s[0] + times.elementwise_backward_s[0],
            "communication_s": messages_s if model.allreduce == "per-layer" else math.nan,
        }
    )
    if model.allreduce == "fused":
        frame = frame.assign(reason="one message for all layers")
    return frame.assign(method=model.describe(KERNELS if regressors else ""))


def _time_layers(network: LayerList, scenario: Scenario, model: StepModel, regressors: Regressors | None) -> LayerTimes:
    if regressors is not None:
        return time_layers_by_kernels(network, scenario.batch, regressors)[0]
    work = count_work(network.layers, model.cost_model)
    return time_layers(
        work, scenario.batch, scenario.peak_flop_per_s, scenario.memory_bytes_per_s, scenario.precision_bytes
    )


def _find_origins(given: Mapping[str, str], cluster: Cluster | None, sweeps: Mapping[str, object]) -> dict[str, str]:
    """Return the origins of a preset's numbers, without those that an option replaces."""
    if cluster is None:
        return {}
    own = {quantity.parameter for option, quantity in QUANTITIES.items() if option in sweeps or option in given}
    return {name: words for name, words in cluster.origins.items() if name not in own}


def _write(frame: pd.DataFrame, facts: Mapping[str, Any], rows: str, output: str) -> str:
    """Return the text to print: a frame with its facts."""
    if output == "csv":
        return frame.to_csv(index=False).rstrip("\n")
    if output == "json":
        return say_json({**facts, rows: plain_records(frame.drop(columns="method"))})
    lines = [f"{facts['network']}: {facts['parameters']:,} parameters ({facts['source']})", str(facts["method"])]
    lines += [f"{name}: {words}" for name, words in facts["origins"].items()]
    lines += [f"not modelled: {sentence}" for sentence in facts["not_modelled"]]
    return "\n".join([*lines, "", _format(frame)])


def _format(frame: pd.DataFrame) -> str:
    """Return a readable table: one scenario vertically; of several, only identifying columns and results."""
    shown = frame.drop(columns="method")
    if "layer" in shown:
        return shown.to_string(index=False, float_format="{:.4g}".format, na_rep="")
    if len(shown) == 1:
        return shown.T.to_string(header=False, float_format="{:.5g}".format, na_rep="unknown")
    swept = [name for name in PARAMETERS if len(set(shown[name])) > 1]
    return shown[[*swept, *RESULTS]].to_string(index=False, float_format="{:.4g}".format, na_rep="unknown")
