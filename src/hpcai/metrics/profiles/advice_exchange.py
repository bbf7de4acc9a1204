"""Advice on communication: causes of waiting, and the setting to change."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from hpcai.core.messages import Message
from hpcai.core.text import say_bytes, say_rate, say_share, say_time
from hpcai.metrics.profiles.link import TRANSFER
from hpcai.metrics.quietness import DISTURBED

COMMUNICATION_SMALL = 0.05
"""Share of the step: without any communication, the step would be at most a twentieth shorter."""
COMMUNICATION_LARGE = 0.20
"""Share of the step from which moving fewer bytes, or hiding them, is worth a changed setting."""
NEGOTIATION_LARGE = 0.20
"""Share of communication: between the two implementations of HPC AI500 V2.0, Table 12 (28.6 % and 16.1 %), of which
the paper advises improving the first."""
COPIES_LARGE = 0.20
"""Share of communication in copies of the fusion buffer: both are overhead, so the limit is that of negotiation."""
ONE_GROUP = 2
"""Batches of gradients per step up to which they form one group: a group larger than Horovod's buffer takes two."""
SMALL_LARGE = 0.20
"""Share of the transfers in messages far smaller than those of the gradients: the same limit as for copies."""
STRAGGLER_EXCESS = 0.4
"""How far one rank is last beyond its even share: 0 = as often as others, 1 = always; 70 % of two, 48 % of eight."""
CHANCE_SMALL = 0.01
"""A rank that is last this often is no straggler if fair ranks show such a rank in more than one of a hundred runs."""
HALF = 0.5
"""Hockney's half-performance length: shorter messages spend more time on latency than on their bytes. Also the share
of the measured transfer rate below which something other than the link delays a run's transfers."""
OVERLAP_SMALL, HIDDEN = 0.3, 0.9
"""Share of transfers hidden behind computation. The backward pass, two thirds of a step, could hide more than 0.3; from
0.9 on only the last batch remains, which has no computation to hide behind."""
FUSION_MOST_BYTES = 2.0**27
"""Horovod's own default (128 MiB): larger buffers cost memory on every rank without further gain."""

WAS_DISTURBED = Message(
    "advice.was_disturbed",
    "The machine was disturbed during this capture: other processes, external profilers among them, took {others} of "
    "the cores of a node, a hypervisor {steal}. Capture again on a quiet machine before changing anything.",
)
LITTLE_COMMUNICATION = Message("advice.little_communication", "Nothing to gain: communication is {share} of the step.")
TRANSFERS_HIDE = Message("advice.transfers_hide", "Nothing to gain: {share} of the transfers overlap computation.")
LITTLE_HIDES = Message(
    "advice.little_hides",
    "Only {share} of the transfers overlap computation: with gradient_groups 2 or more, the gradients of the last "
    "layers are sent while the others are computed, instead of all as one group after the last.",
)
STRAGGLER = Message(
    "advice.straggler",
    "{rank} is last in {times} of {seen} negotiations ({even} would be balanced), so it is a straggler: check its "
    "cores, its device and its input before the network.",
)
RANKS_WAIT = Message(
    "advice.ranks_wait",
    "Negotiation takes {share} of communication, although the gradients are sent in {batches} per step: the ranks "
    "wait for each other. {look}; larger messages would not help.",
)
OTHERS_UNKNOWN = Message(
    "advice.others_unknown",
    "First check how much other processes use their cores, which was not measured, then the ranks' own work",
)
OTHERS_TOOK_LITTLE = Message(
    "advice.others_took_little",
    "Other processes took only {share} of the cores, so balance the ranks' work and input",
)
NEGOTIATION = Message(
    "advice.negotiation", "Negotiation takes {share} of communication: fewer, larger tensors; {fusion}."
)
ONE_BATCH = Message("advice.one_batch", "leave fusion_bytes blank, so that all gradients are sent as one group")
ONE_BATCH_OR_TRY = Message(
    "advice.one_batch_or_try",
    "leave fusion_bytes blank, so that all gradients travel as one group, or try {settings}",
)
SMALL_MESSAGES = Message(
    "advice.small_messages",
    "Messages outside the main size class, {per_step} per step, take {share} of the transfers: {cure}.",
)
EACH_WAITS = Message(
    "advice.each_waits", "each waits for all its ranks; with batchnorm_group every normalisation sends some"
)
LATENCY_BOUND = Message(
    "advice.latency_bound",
    "Messages are latency-bound: for {size} this link reaches {rate}, {share} of its rate for {full}; {cure}.",
)
FEWER_EXCHANGES = Message("advice.fewer_exchanges", "fewer exchanges: raise accumulation or global_batch")
SAME_SETTINGS = Message("advice.same_settings", "larger messages, with the same settings")
LARGER_MESSAGES = Message("advice.larger_messages", "larger messages: {fusion}")
HELD_UP = Message(
    "advice.held_up",
    "Batches of {size} reach {share} of the link's rate for this size: something else delays them, such as cores that "
    "are busy computing.",
)
FUSION_COPIES = Message(
    "advice.fusion_copies",
    "Copies into and out of the fusion buffer take {share} of communication: a smaller fusion_bytes lets large "
    "tensors be sent without copies.",
)
LINK_USED_WELL = Message(
    "advice.link_used_well",
    "Communication takes {share} of the step at {of_link} of the rate of the machine's allreduce: move fewer bytes; "
    "compression fp16 halves them, accumulation or a larger global_batch exchanges them less often.",
)

Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Finding:
    """One sentence of advice and the numbers behind it."""

    sentence: str
    evidence: str


@dataclass(frozen=True)
class Exchange:
    """The communication of one profiled run, with the rates of the machine's own allreduce."""

    row: Row
    phases: pd.DataFrame
    link: pd.DataFrame
    """The measured allreduce of the same number of ranks in the same scope; empty if there is none."""
    capture: Row
    """Use of the machine by others during the timeline; empty if unknown."""

    @property
    def batches(self) -> float:
        """Batches of gradients per step."""
        others = np.nan_to_num(number(self.row, "other_batches"))
        return float(number(self.row, "batches") - others) / (number(self.row, "steps") or math.nan)

    @property
    def grouped(self) -> bool:
        """Whether all gradients are known to be sent as one group."""
        return self.batches <= ONE_GROUP

    @cached_property
    def transfers(self) -> pd.Series:
        """Usual bandwidth [bytes/s] of the measured transfers by size: the reference for the batches of a run."""
        if self.link.empty:
            return pd.Series(dtype=float)
        own = self.link[self.link["what"] == TRANSFER].set_index("bytes").sort_index()
        return own["algorithm_bandwidth_bytes_per_s"].astype(float)

    @property
    def best(self) -> float:
        """The highest measured bandwidth; NaN if there is none."""
        return float(self.transfers.max()) if len(self.transfers) else math.nan

    def reaches(self, size: float) -> float:
        """Return the bandwidth [bytes/s] of measured transfers of ``size`` bytes; NaN outside the measured sizes."""
        sizes = self.transfers.index.to_numpy(dtype=float)
        if not len(sizes) or not sizes[0] <= size <= sizes[-1]:
            return math.nan
        return float(np.exp(np.interp(math.log(size), np.log(sizes), np.log(self.transfers.to_numpy(dtype=float)))))


def number(row: Row, name: str) -> float:
    """Return a number of a row; NaN if it was not measured."""
    value = row.get(name)
    return math.nan if value is None or value is pd.NA or isinstance(value, str) else float(value)


def find_disturbance(capture: Row) -> Iterator[Finding]:
    """Yield the warning that precedes all other advice if others used too much of the machine during a capture."""
    if capture.get("quiet") != DISTURBED:
        return
    others, steal = number(capture, "others_ratio"), number(capture, "steal_ratio")
    yield Finding(
        WAS_DISTURBED(others=say_share(others), steal=say_share(steal)),
        f"quiet = {DISTURBED}, others_ratio = {or_not(others)}, steal_ratio = {or_not(steal)}",
    )


def advise_communication(exchange: Exchange) -> Iterator[Finding]:
    """Yield advice on the communication of one run, the most important first."""
    row = exchange.row
    disturbed = [*find_disturbance(exchange.capture)]
    if disturbed:  # a rank delayed by other processes keeps all ranks waiting
        yield from disturbed
        return
    share, overlap = number(row, "communication_share_ratio"), number(row, "overlap_ratio")
    evidence = f"communication_share_ratio = {or_not(share)}, overlap_ratio = {or_not(overlap)}"
    if share < COMMUNICATION_SMALL:
        yield Finding(LITTLE_COMMUNICATION(share=say_share(share)), evidence)
        return
    rules: tuple[Callable[[Exchange], Iterator[Finding]], ...] = (
        _find_straggler, _find_negotiation, _find_small, _find_latency, _find_held_up, _find_copies, _find_volume,
    )  # fmt: skip
    if overlap >= HIDDEN:
        rules = (_find_straggler, _find_negotiation)  # faster transfers would not shorten the step
    found = [finding for rule in rules for finding in rule(exchange)]
    yield from found
    if not found and overlap >= HIDDEN:
        yield Finding(TRANSFERS_HIDE(share=say_share(overlap)), evidence)
    # Single gradients overlap better, one group negotiates less: advice on both at once would be contradictory.
    if not found and overlap < OVERLAP_SMALL and share >= COMMUNICATION_LARGE and exchange.grouped:
        yield Finding(LITTLE_HIDES(share=say_share(overlap)), evidence)


def _find_straggler(exchange: Exchange) -> Iterator[Finding]:
    row = exchange.row
    ranks, last = number(row, "ranks"), number(row, "slowest_rank_last_ratio")
    seen = number(row, "slowest_rank_negotiations")
    if not (ranks > 1 and seen > 0 and math.isfinite(last)):
        return
    times = round(last * seen)
    excess = (last - 1 / ranks) / (1 - 1 / ranks)
    if excess >= STRAGGLER_EXCESS - 1e-9 and _chance(times, int(seen), int(ranks)) <= CHANCE_SMALL:
        rank = number(row, "slowest_rank")
        name = f"Rank {rank:.0f}" if math.isfinite(rank) else "One rank"
        yield Finding(
            STRAGGLER(rank=name, times=times, seen=round(seen), even=say_share(1 / ranks)),
            f"slowest_rank_last_ratio = {last:.3f}, slowest_rank_negotiations = {seen:.0f}",
        )


def _chance(times: int, moments: int, ranks: int) -> float:
    """Return an upper bound for the probability that any of several fair ranks is last this often (binomial)."""
    if times <= 0:
        return 1.0
    each = [math.lgamma(moments + 1) - math.lgamma(k + 1) - math.lgamma(moments - k + 1) for k in range(moments + 1)]
    odds = (each[k] - k * math.log(ranks) + (moments - k) * math.log(1 - 1 / ranks) for k in range(times, moments + 1))
    return min(1.0, ranks * sum(map(math.exp, odds)))


def _find_negotiation(exchange: Exchange) -> Iterator[Finding]:
    row = exchange.row
    share = number(row, "negotiation_share_ratio")
    # Its spans overlap each other, so a large sum does not mean that they fill the step.
    of_step = number(row, "negotiation_s") / (number(row, "steps") * number(row, "step_time_s") or math.nan)
    if not share >= NEGOTIATION_LARGE or of_step < COMMUNICATION_SMALL:
        return
    evidence = (
        f"negotiation_share_ratio = {share:.3f}, batches per step = {or_not(exchange.batches)}, "
        f"negotiation in a step = {or_not(of_step)}"
    )
    if exchange.grouped:
        look = _say_others(exchange.capture)
        text = RANKS_WAIT(share=say_share(share), batches=_say_batches(exchange.batches), look=look)
    else:
        text = NEGOTIATION(share=say_share(share), fusion=_say_fusion(exchange))
    yield Finding(text, evidence)


def _say_others(capture: Row) -> str:
    """Return what to check where ranks wait for each other, starting with the processor accounting."""
    others = number(capture, "others_ratio")
    if math.isnan(others):
        return OTHERS_UNKNOWN()
    return OTHERS_TOOK_LITTLE(share=say_share(others))


def _say_fusion(exchange: Exchange) -> str:
    """Return the settings for larger batches, with values where the run's own numbers determine them."""
    size, cycle = number(exchange.row, "bytes_per_step"), number(exchange.row, "cycle_time_s")
    tries = []
    if size > 0:
        tries.append(f"fusion_bytes {say_bytes(min(2.0 ** math.ceil(math.log2(size)), FUSION_MOST_BYTES))}")
    if cycle > 0:
        tries.append(f"cycle_time_s {say_time(2 * cycle)} (twice the present one)")
    return ONE_BATCH_OR_TRY(settings=" and ".join(tries)) if tries else ONE_BATCH()


def _find_small(exchange: Exchange) -> Iterator[Finding]:
    """Report that messages other than the gradients take time although they are small."""
    count, whole, small = (number(exchange.row, name) for name in ("other_batches", "transfer_s", "other_transfer_s"))
    share = small / (whole or math.nan)
    if not (count > 0 and share >= SMALL_LARGE):
        return
    each = f"{count / number(exchange.row, 'steps'):.2g}"
    cure = EACH_WAITS() if exchange.grouped else _say_fusion(exchange)
    yield Finding(
        SMALL_MESSAGES(per_step=each, share=say_share(share), cure=cure),
        f"other_batches = {count:.0f}, other_transfer_s = {small:.3g}, transfer_s = {whole:.3g}",
    )


def _find_latency(exchange: Exchange) -> Iterator[Finding]:
    size = number(exchange.row, "batch_bytes_mean")
    rate = number(exchange.row, "algorithm_bandwidth_bytes_per_s")
    best, here = exchange.best, exchange.reaches(size) if size > 0 else math.nan
    here = max(here, rate)  # the run may have shown a faster link; an unknown rate changes nothing
    if not here / best < HALF:
        return
    full = float(exchange.transfers.index[exchange.transfers >= 0.9 * best][0])
    if exchange.grouped:
        cure = FEWER_EXCHANGES()
    elif number(exchange.row, "negotiation_share_ratio") >= NEGOTIATION_LARGE:
        cure = SAME_SETTINGS()  # the finding about negotiation names them
    else:
        cure = LARGER_MESSAGES(fusion=_say_fusion(exchange))
    shown = {"size": say_bytes(size), "rate": say_rate(here), "share": say_share(here / best), "full": say_bytes(full)}
    yield Finding(
        LATENCY_BOUND(**shown, cure=cure),
        f"batch_bytes_mean = {size:.0f}; measured transfers of the allreduce [B/s]: {exchange.reaches(size):.3g} at "
        f"this size, {best:.3g} at their best; algorithm_bandwidth_bytes_per_s of the run = {or_not(rate)}",
    )


def _find_held_up(exchange: Exchange) -> Iterator[Finding]:
    size, rate = (number(exchange.row, name) for name in ("batch_bytes_mean", "algorithm_bandwidth_bytes_per_s"))
    here = exchange.reaches(size) if size > 0 else math.nan
    if rate / here < HALF:
        yield Finding(
            HELD_UP(size=say_bytes(size), share=say_share(rate / here)),
            f"algorithm_bandwidth_bytes_per_s = {rate:.3g}, measured transfer of this size = {here:.3g} B/s",
        )


def _find_copies(exchange: Exchange) -> Iterator[Finding]:
    if exchange.phases.empty:
        return
    copies = exchange.phases["phase"].astype(str).str.lower().str.contains("fusion")
    share = float(exchange.phases.loc[copies, "share_ratio"].sum())
    if share >= COPIES_LARGE:
        yield Finding(
            FUSION_COPIES(share=say_share(share)),
            f"share_ratio of the phases of the fusion buffer = {share:.3f}",
        )


def _find_volume(exchange: Exchange) -> Iterator[Finding]:
    """Report that the step waits for the link although it is well used."""
    row = exchange.row
    share, size = number(row, "communication_share_ratio"), number(row, "batch_bytes_mean")
    rate, best = number(row, "algorithm_bandwidth_bytes_per_s"), exchange.best
    if share >= COMMUNICATION_LARGE and rate / best >= HALF:
        yield Finding(
            LINK_USED_WELL(share=say_share(share), of_link=say_share(rate / best)),
            f"communication_share_ratio = {share:.3f}, algorithm_bandwidth_bytes_per_s = {rate:.3g} of {best:.3g}, "
            f"batch_bytes_mean = {or_not(size)}",
        )


def or_not(value: float) -> str:
    """Format a number, or state that it was not measured."""
    return f"{value:.3g}" if math.isfinite(value) else "not measured"


def _say_batches(batches: float) -> str:
    return "one batch" if batches == 1 else f"{batches:.2g} batches"
