"""Text of a small Horovod timeline, in the layout of Horovod's timeline.cc."""

import json

STEP_US, TENSORS, FLOATS = 500_000, 2, 256


def timeline_text(start_s: float, steps: int = 4, ranks: int = 2) -> str:
    """Return a timeline: each half-second step transfers two tensors as one fused batch of 2 KiB.

    Each tensor is negotiated for 40 ms (rank 1 is last), copied in 1 ms, transferred in 10 ms, and copied out in 1 ms.

    Parameters
    ----------
    start_s
        Start of the timeline, in seconds since the epoch; steps begin 0.25 s later.
    """
    events = [
        {"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": int(start_s * 1e6)}}
    ]
    events += [
        {"name": "process_name", "ph": "M", "pid": tensor, "args": {"name": f"gradient.{tensor}"}}
        for tensor in range(1, TENSORS + 1)
    ]
    for step in range(steps):
        for at_us, phase, name in _operation(ranks):
            for tensor in range(1, TENSORS + 1):
                event = {"ph": phase, "name": name, "ts": 250_000 + step * STEP_US + 100_000 + at_us, "pid": tensor}
                if phase == "E":
                    event.pop("name")
                    if name == "ALLREDUCE":
                        event["args"] = {"dtype": "float32", "shape": f"[{FLOATS}]"}
                if phase == "X":
                    event["dur"] = 0
                events.append(event)
    return "[\n" + ",\n".join(json.dumps(event) for event in events) + "\n]"


def _operation(ranks: int) -> list[tuple[int, str, str]]:
    ready = [(rank * 39_000, "X", str(rank)) for rank in range(ranks)]
    return [
        (0, "B", "NEGOTIATE_ALLREDUCE"),
        *ready,
        (40_000, "E", "NEGOTIATE_ALLREDUCE"),
        (40_000, "B", "ALLREDUCE"),
        (40_000, "B", "MEMCPY_IN_FUSION_BUFFER"),
        (41_000, "E", ""),
        (41_000, "B", "GLOO_ALLREDUCE"),
        (51_000, "E", ""),
        (51_000, "B", "MEMCPY_OUT_FUSION_BUFFER"),
        (52_000, "E", ""),
        (52_000, "E", "ALLREDUCE"),
    ]
