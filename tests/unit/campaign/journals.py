"""Journals as the workflow writes them, for the tests of `hpcai run`."""

import json

STAGES = {"prepare_data": "data", "train": "measure", "report": "report"}
PLANNED = {"prepare_data": 1, "train": 3, "report": 1, "all": 1, "total": 6}
START_S = 1000.0


def plan():
    return {"event": "run_info", "time_s": START_S, "jobs": PLANNED, "stages": STAGES}


def start(number, rule, time_s, output=None, **wildcards):
    job = {"event": "job_info", "time_s": START_S + time_s, "number": number, "rule": rule}
    output = output or f"results/{rule}.json"
    return job | {"output": [output], "log": [f"logs/{rule}/{number}.log"], "wildcards": wildcards}


def start_run(number, time_s, run):
    return start(number, "train", time_s, f"results/runs/{run}/record.json")


def end(number, time_s, event="job_finished"):
    return {"event": event, "time_s": START_S + time_s, "number": number}


def write(path, *events):
    with path.open("a") as file:
        file.writelines(f"{json.dumps(event)}\n" for event in events)
    return path


RUN = "deepcam_mini/fp32/n1x1/r1"
HALF = (
    *(plan(), start(1, "prepare_data", 2, dataset="deepcam_mini"), end(1, 12), start(9, "all", 12)),
    *(start_run(2, 20, RUN), end(2, 40), start_run(3, 40, RUN.replace("r1", "r2"))),
)
"""Data, one finished run, and a second one that is running."""
