"""Clusters of Barrachina et al. 2023 (doi 10.1007/s00607-021-00997-9) by name, with the origin of each number."""

from collections.abc import Mapping
from dataclasses import dataclass

from hpcai.core.errors import ConfigError
from hpcai.predict.training.step import Scenario


@dataclass(frozen=True)
class Cluster:
    """Machine and batch of one process, and the origin of each number.

    Attributes
    ----------
    title
        Title for figures.
    peak_flop_per_s, memory_bytes_per_s, link_bit_per_s, latency_s, ranks, batch, precision_bytes
        As in `Scenario`; a batch of None is unknown.
    origins
        Numbers given by the source, and assumed or inferred ones.
    """

    title: str
    peak_flop_per_s: float
    memory_bytes_per_s: float
    link_bit_per_s: float
    latency_s: float
    ranks: int
    batch: int | None
    precision_bytes: float
    origins: Mapping[str, str]

    def scenario(self, batch: int | None = None) -> Scenario:
        """Return the scenario with the cluster's own batch or another one."""
        samples = batch if batch is not None else self.batch
        if samples is None:
            raise ConfigError(f"the source gives no batch for {self.title}: choose one")
        return Scenario(
            self.peak_flop_per_s,
            self.memory_bytes_per_s,
            self.link_bit_per_s,
            self.latency_s,
            self.ranks,
            samples,
            self.precision_bytes,
        )


HYPOTHETICAL = Cluster(
    title="hypothetical cluster of 100 A100 GPUs",
    peak_flop_per_s=19.5e12,
    memory_bytes_per_s=1555e9,
    link_bit_per_s=200e9,
    latency_s=1e-6,
    ranks=100,
    batch=128,
    precision_bytes=4.0,
    origins={
        "peak_flop_per_s": "assumed: FP32 of an A100, 6912 x 2 x 1.41 GHz",
        "memory_bytes_per_s": "assumed: data sheet of an A100",
        "link_bit_per_s": "assumed: InfiniBand HDR",
        "latency_s": "inferred from where VGG16 with CIFAR-10 computes as long as it communicates",
        "ranks": "the source's text",
        "batch": "the source's text",
        "precision_bytes": "the source's text",
    },
)
VALIDATION = Cluster(
    title="validation cluster of 8 V100 GPUs",
    peak_flop_per_s=14e12,
    memory_bytes_per_s=900e9,
    link_bit_per_s=12.24e9 * 8,
    latency_s=30e-6,
    ranks=8,
    batch=None,
    precision_bytes=4.0,
    origins={
        "link_bit_per_s": "the source's 12.24, which must be GB/s (printed: Gbps)",
        "batch": "not given",
    },
)
PRESETS = {"hypothetical": HYPOTHETICAL, "validation": VALIDATION}
