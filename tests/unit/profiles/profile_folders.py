"""Folders of captured profiles, made without running anything."""

import json
from pathlib import Path
from typing import Any

from unit.record_factory import make_record

from hpcai.config.plan_file import write_plan
from hpcai.config.runs import ProfileKind
from hpcai.core.files import file_sha256
from hpcai.profiles.profile import Profile
from hpcai.records.files import write_json
from hpcai.records.run import Artefact, Capture

STEPS_S = (100.0, 100.5, 101.0, 101.5)
"""Start of each step on the monotonic clock; the wall clock is 1000 s ahead."""


def make_profile(
    folder: Path, profile: ProfileKind, raw: dict[str, str | bytes], *, tool: str = "a tool", **plan: Any
) -> Profile:
    """Write a captured profile with steps of half a second, and return it.

    ``compute_capability`` belongs to the capture, all other arguments to the plan.
    """
    capability = plan.pop("compute_capability", "")
    record = make_record(**{"kind": "profiled", "profile": profile, "max_steps": len(STEPS_S), **plan})
    (folder / "raw").mkdir(parents=True)
    write_plan(record.plan, folder / "plan.json")
    write_json(record, folder / "record.json")
    rows = "".join(f"1,{number},{start},0.5,1.0\n" for number, start in enumerate(STEPS_S, 1))
    (folder / "raw/steps.csv").write_text("epoch,step,start_s,step_time_s,train_loss\n" + rows)
    (folder / "raw/clocks.json").write_text(json.dumps({"monotonic_s": 50.0, "wall_s": 1050.0}))
    files = []
    for name, content in raw.items():
        path = folder / "raw" / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        files.append(Artefact(path=f"raw/{name}", bytes=path.stat().st_size, sha256=file_sha256(path)))
    capture = Capture(
        profile=profile,
        run_id=record.run_id,
        tool=tool,
        status="measured" if files else "not_measured",
        reason="" if files else f"no {tool} here",
        raw=tuple(files),
        compute_capability=capability,
    )
    write_json(capture, folder / "capture.json")
    return Profile.at(folder / "capture.json")
