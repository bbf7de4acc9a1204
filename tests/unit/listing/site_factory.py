"""Editions for the pages of the list: a small one with hostile names, and many simulated entries."""

import random
from collections.abc import Iterable
from datetime import date

from hpcai.listing.entries import (
    Check,
    Edition,
    Entry,
    File,
    Machine,
    MachineNumber,
    NotMeasured,
    Number,
    Place,
    Prediction,
    Ranking,
    Reason,
    Refusal,
    Reproducibility,
    Run,
    Verdict,
    make_id,
)

MARKUP = '<img src=x onerror=alert(1)><script>document.title="owned"</script> & "Co" \'x\' </title> {{ 7*7 }}'
RIGHT_TO_LEFT = "מחשב\u202eabc עברית"
LONG = "Unbreakable" * 30
BENCHMARKS = {"CosmoFlow": "lower", "DeepCAM": "lower", "OpenCatalyst": "lower"}
FAMILIES = ("V100", "A100", "H100", "A64FX")
ROUNDS = {2020: "v0.7", 2021: "v1.0", 2022: "v2.0", 2023: "v3.0"}
SPEED = {"V100": 1.0, "A100": 2.4, "H100": 5.1, "A64FX": 0.3}


def make_edition(count: int = 60, seed: int = 1, organisations: Iterable[str] = (), name: str = "draft") -> Edition:
    """Return an edition of simulated entries; the first three organisations have hostile names."""
    dice = random.Random(seed)
    names = [
        MARKUP,
        RIGHT_TO_LEFT,
        LONG,
        *organisations,
        *(f"Laboratory {number}" for number in range(max(3, count // 40))),
    ]
    machines = {}
    entries = []
    for number in range(count):
        organisation = names[number % len(names)]
        family = FAMILIES[number % len(FAMILIES)]
        title = f"{organisation[:400]} machine {number % 7}" if number % 5 else f"Machine {number % 7}"
        machine = Machine(
            id=make_id(organisation, title, family),
            name=title,
            organisation=organisation,
            accelerator=f"NVIDIA {family}",
            processor="Some CPU",
            family=family,
            facts=(("Interconnect", "InfiniBand"), (MARKUP[:60], RIGHT_TO_LEFT)),
            numbers=(_of_machine("hpl_flop_per_s", "FLOP/s", 3.2e15, "HPL output"),) if number % 2 else (),
            not_measured=() if number % 2 else (NotMeasured(title="Rate, HPL", reason="HPL was not run here"),),
        )
        machines[machine.id] = machine
        entries.append(_make_entry(number, machine, dice))
    return Edition(
        name=name,
        title="HPC-AI list",
        made=date(2026, 11, 25),
        url="https://list.example.org",
        entries=tuple(entries),
        machines=tuple(machines.values()),
        refused=(
            Refusal(
                id="refused-1",
                submission=MARKUP,
                place="",
                reasons=(
                    Reason(code="verdict.not_accepted", text=f"The log ends before run_stop: {LONG}", place="a/b.txt"),
                ),
            ),
        ),
        rankings=tuple(_rank(entries)),
        predictions=_predictions(entries),
        earlier=("2026-05",),
    )


def _number(quantity: str, unit: str, value: float, source: str, spread: float = 0.03) -> Number:
    return Number(
        quantity=quantity,
        unit=unit,
        value=value,
        low=value * (1 - spread),
        high=value * (1 + spread),
        interval="95 % interval of the mean",
        n=5,
        method="mean of the counted runs",
        source=source,
    )


def _of_machine(quantity: str, unit: str, value: float, source: str) -> MachineNumber:
    plain = _number(quantity, unit, value, source).model_dump()
    return MachineNumber(**plain, title="Rate, HPL", rule="TOP500", setting="N 100000")


def _make_entry(number: int, machine: Machine, dice: random.Random) -> Entry:
    benchmark = list(BENCHMARKS)[number % 3]
    year = dice.randrange(2020, 2024)
    units = 2 ** dice.randrange(3, 11)
    rate = SPEED[machine.family] * units**0.93 * 40 * (1 + 0.2 * (year - 2020)) * dice.uniform(0.8, 1.2)
    times = [5e6 / rate * dice.uniform(0.96, 1.04) for _ in range(5)]
    mean = sum(times) / len(times)
    numbers = [
        _number("time_to_train_s", "s", mean, "results/cosmoflow.txt"),
        _number("train_rate_samples_per_s", "samples/s", rate, "results/cosmoflow.txt"),
        _number("vflops_flop_per_s", "FLOP/s", rate * 3e11, "report.json"),
    ]
    if number % 2:
        numbers.append(_number("vflops_flop_per_j", "FLOP/J", rate * 3e11 / units / 400, "report.json"))
    valid = number % 11 != 10
    reason = Reason(code="verdict.too_few", text=f"Only four runs {MARKUP}", place="runs")
    return Entry(
        id=make_id(machine.id, benchmark, str(units), str(year), str(number)),
        title=f"{machine.name[:300]}, {units} × {machine.family}",
        basis="declared" if number % 13 == 12 else "published",
        suite="mlperf_hpc",
        round=ROUNDS[year],
        benchmark=benchmark,
        benchmark_title=f"{benchmark} (MLPerf HPC)",
        workload=benchmark.lower(),
        dataset=f"{benchmark} data",
        data="official",
        division="open" if number % 5 == 4 else "closed",
        organisation=machine.organisation,
        machine=machine.id,
        system=machine.name,
        nodes=units // 8 or 1,
        units=units if number % 17 else None,
        accelerator=machine.accelerator,
        family=machine.family,
        year=year,
        quality_metric="mae",
        quality_target=0.124,
        rules="clock from run_start",
        numbers=tuple(numbers),
        runs=tuple(
            Run(name=f"result_{place}.txt", outcome="converged", counted=True, time_s=time, complies=True)
            for place, time in enumerate(times)
        ),
        runs_by_rule=5,
        settings=(("global batch", units * 4), ("framework", "TensorFlow 2.18"), (MARKUP[:80], LONG)),
        verdict=Verdict(
            status="valid" if valid else "not valid",
            judge="hpcai 0.1.0",
            rule_set="3.0.0",
            label="accepted" if valid else "not accepted",
            checked=("Every line of every log was read.",),
            reasons=() if valid else (reason,),
        ),
        evidence=(File(path="results/result_0.txt", sha256="0" * 64, bytes=12345),),
        reproducibility=Reproducibility(
            score=60.0,
            checks=(Check(name="code", points=12, most=12), Check(name="data", points=8, most=16, reason="pack it")),
            method="share of checks met",
        ),
        repeat=f"git clone … && ./run_and_time.sh  # {MARKUP}",
        submission="round",
        added=date(2026, 11, 1),
    )


KINDS = {
    "time_to_train": ("time_to_train_s", "s", "lower"),
    "throughput_per_unit": ("train_rate_samples_per_s_per_unit", "samples/s", "higher"),
    "vflops": ("vflops_flop_per_s", "FLOP/s", "higher"),
    "vflops_per_watt": ("vflops_flop_per_j", "FLOP/J", "higher"),
}


def _value(kind: str, entry: Entry) -> float | None:
    if kind == "throughput_per_unit":
        return entry.per_unit
    number = entry.number(KINDS[kind][0])
    return number.value if number else None


def _rank(entries: list[Entry]) -> Iterable[Ranking]:
    groups: dict[tuple[str, str, str, str], list[Entry]] = {}
    for entry in entries:
        for kind in KINDS:
            if _value(kind, entry) is not None:
                groups.setdefault((kind, entry.benchmark, entry.division, entry.basis), []).append(entry)
    for (kind, benchmark, division, basis), members in sorted(groups.items()):
        quantity, unit, better = KINDS[kind]
        sign = 1 if better == "lower" else -1
        ordered = sorted(members, key=lambda one: (one.verdict.status != "valid", sign * (_value(kind, one) or 0)))
        valid = sum(one.verdict.status == "valid" for one in ordered)
        places = tuple(
            Place(entry=one.id, place=place if place <= valid else None) for place, one in enumerate(ordered, start=1)
        )
        yield Ranking(
            id=make_id(kind, benchmark, division, basis),
            title=f"{kind} {benchmark}",
            kind=kind,
            quantity=quantity,
            unit=unit,
            better=better,
            benchmark=benchmark,
            benchmark_title=f"{benchmark} (MLPerf HPC)",
            dataset=f"{benchmark} data",
            data="official",
            division=division,
            basis=basis,
            quality_target=0.124,
            rules="clock from run_start",
            judged=True,
            places=places,
        )


def _predictions(entries: list[Entry]) -> tuple[Prediction, ...]:
    later = [one for one in entries if one.year == 2023][:6]
    return tuple(
        Prediction(
            entry=one.id,
            number=_number("time_to_train_s", "s", one.numbers[0].value * 1.1, "forecast", 0.2),
            measured=one.numbers[0],
            made_from="v0.7, v1.0 and v2.0",
        )
        for one in later
    )
