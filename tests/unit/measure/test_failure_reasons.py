"""The most informative line about the failure of a launcher."""

import pytest

from hpcai.measure.failure_reasons import KILLED, TAIL_BYTES, lost_node, why

LOST = "3: horovod.common.exceptions.HorovodInternalError: Connection reset by peer"
HOROVODRUN = """Traceback (most recent call last):
  File "gloo_run.py", line 284, in launch_gloo
    raise RuntimeError('Horovod detected that one or more processes exited with non-zero '
RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to be \
terminated. The first process to do so was:
Process name: {rank}
Exit code: {code}

"""
CASES = {
    "own error": (
        "[1]<stderr>:Traceback\n[1]<stderr>:hpcai.core.errors.StagingError: /scratch: found 3 bytes free\n"
        "exit code 1\n",
        "/scratch: found 3 bytes free",
    ),
    "any error": (
        "[0]<stderr>:ValueError: shapes differ\nProcess 0 exit with status code 1.\n",
        "ValueError: shapes differ",
    ),
    "signal": ("chatter\nProcess 1 was terminated by signal 15\n", "Process 1 was terminated by signal 15"),
    "signal 9": (
        "chatter\nProcess 1 was terminated by signal 9\n",
        f"Process 1 was terminated by signal 9: {KILLED}",
    ),
    "horovodrun": (
        "[1]<stderr>:chatter\nProcess 1 exit with status code 137.\n",
        f"Process 1 exit with status code 137.: {KILLED}",
    ),
    "mpirun": (
        "HorovodInternalError: broken pipe\n"
        "mpirun noticed that process rank 1 with PID 0 on node n2 exited on signal 9 (Killed).\n",
        f"mpirun noticed that process rank 1 with PID 0 on node n2 exited on signal 9 (Killed).: {KILLED}",
    ),
    "rank that horovodrun saw killed": (
        f"[0]<stdout>:epoch 1: loss 0.5\n{LOST.replace('3: ', '[0]<stderr>:')}\nProcess 1 exit with status code 137.\n"
        f"Terminating remaining workers after failure of Process 1.\n{HOROVODRUN.format(rank=1, code=137)}",
        f"rank 1: {KILLED}",
    ),
    "rank that horovodrun saw crash": (
        f"[0]<stdout>:epoch 1: loss 0.5\n{HOROVODRUN.format(rank=0, code=139)}",
        "rank 0: ended by signal 11 (SIGSEGV)",
    ),
    "error that horovodrun does not name": (
        "[1]<stderr>:ValueError: shapes differ\n[0]<stderr>:horovod.common.exceptions.HorovodInternalError: reset\n"
        f"{HOROVODRUN.format(rank=1, code=1)}",
        "ValueError: shapes differ",
    ),
    "own error under horovodrun": (
        "[1]<stderr>:hpcai.core.errors.StagingError: /scratch: found 3 bytes free\n"
        f"{HOROVODRUN.format(rank=0, code=137)}",
        "/scratch: found 3 bytes free",
    ),
    "status without an error": (
        f"[1]<stderr>:gives up\n[0]<stdout>:epoch 2\n{HOROVODRUN.format(rank=1, code=3)}",
        "rank 1: ended with status 3: gives up",
    ),
    "full disk": (
        "[0]<stderr>:OSError: [Errno 28] No space left on device: 'raw/steps.csv'\n"
        f"[1]<stderr>:horovod.common.exceptions.HorovodInternalError: reset\n{HOROVODRUN.format(rank=0, code=1)}",
        "OSError: [Errno 28] No space left on device: 'raw/steps.csv'",
    ),
    "full disk that TensorFlow met": (
        f"1: tensorflow.python.framework.errors_impl.ResourceExhaustedError: No space left on device\n{LOST}\n"
        "srun: error: n1: task 1: Exited with exit code 1\n",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: No space left on device",
    ),
    "quota": (
        f"0: OSError: [Errno 122] Disk quota exceeded\n{LOST}\n",
        "OSError: [Errno 122] Disk quota exceeded",
    ),
    "last words": ("chatter\nlast words\n", "last words"),
    "nothing": ("", "no output"),
    "control group": (
        f"0: epoch 1\n{LOST}\nslurmstepd: error: Detected 1 oom_kill event in StepId=17.0. Some of the step tasks have "
        "been OOM Killed.\nsrun: error: n2: task 3: Out Of Memory\n",
        "srun: error: n2: task 3: Out Of Memory",
    ),
    "control group before 22": (
        f"{LOST}\nslurmstepd: error: Detected 1 oom-kill event(s) in step 17.0 cgroup. Some of your processes may have "
        "been killed by the cgroup out-of-memory handler.\nsrun: error: n2: tasks 2-3: Killed\n",
        "slurmstepd: error: Detected 1 oom-kill event(s) in step 17.0 cgroup. Some of your processes may have been "
        "killed by the cgroup out-of-memory handler.",
    ),
    "memory limit": (
        f"{LOST}\nslurmstepd-n1: error: StepId=1.0 exceeded memory limit (1141690368 > 1048576000), being killed\n"
        "srun: error: n1: task 0: Killed\n",
        "slurmstepd-n1: error: StepId=1.0 exceeded memory limit (1141690368 > 1048576000), being killed",
    ),
    "old memory limit": (
        "slurmstepd: error: Exceeded job memory limit at some point.\nsrun: error: n1: task 0: Killed\n",
        "slurmstepd: error: Exceeded job memory limit at some point.",
    ),
    "node": (
        "srun: error: Node failure on n2\n"
        "slurmstepd-n1: error: *** STEP 3.0 ON n1 CANCELLED AT 2026-11-22T04:51:37 DUE TO NODE FAILURE, SEE SLURMCTLD "
        f"LOG FOR DETAILS ***\nsrun: Job step aborted\n{LOST}\nsrun: error: n1: task 0: Killed\n",
        "srun: error: Node failure on n2",
    ),
    "time limit": (
        "0: epoch 3\nslurmstepd: error: *** STEP 17.0 ON n1 CANCELLED AT 2026-11-22T04:51:37 DUE TO TIME LIMIT ***\n"
        "srun: error: n1: task 0: Terminated\n",
        "slurmstepd: error: *** STEP 17.0 ON n1 CANCELLED AT 2026-11-22T04:51:37 DUE TO TIME LIMIT",
    ),
    "rank killed": (
        f"0: epoch 1\nsrun: error: n2: task 3: Killed\n{LOST}\nsrun: error: n1: tasks 0-2: Exited with exit code 1\n",
        f"srun: error: n2: task 3: Killed: {KILLED}",
    ),
    "rank killed because another failed": (
        "0: ValueError: shapes differ\nsrun: error: n1: task 0: Exited with exit code 1\n"
        "slurmstepd: error: *** STEP 17.0 ON n1 CANCELLED AT 2026-11-22T04:51:37 ***\n"
        "srun: error: n2: tasks 2-3: Killed\n",
        "ValueError: shapes differ",
    ),
    "own error before the kill": (
        "12: hpcai.core.errors.StagingError: /scratch: found 3 bytes free\n"
        "srun: error: n2: task 12: Exited with exit code 1\nsrun: error: n1: tasks 0-11: Killed\n",
        "/scratch: found 3 bytes free",
    ),
    "crash": (
        f"srun: error: n2: task 3: Segmentation fault (core dumped)\n{LOST}\n",
        "srun: error: n2: task 3: Segmentation fault (core dumped)",
    ),
}


@pytest.mark.parametrize(("output", "reason"), CASES.values(), ids=CASES)
def test_the_reason_of_a_failure(tmp_path, output, reason):
    (tmp_path / "output.log").write_text(output)
    assert why(tmp_path / "output.log", 1) == reason


@pytest.mark.parametrize("status", [-9, 137])
def test_a_killed_launcher_without_words(tmp_path, status):
    (tmp_path / "output.log").write_text("epoch 3\n")
    assert why(tmp_path / "output.log", status) == f"epoch 3: {KILLED}"
    (tmp_path / "output.log").write_text("ValueError: shapes differ\n")
    assert why(tmp_path / "output.log", status) == "ValueError: shapes differ"


def test_of_a_flood_only_the_end_is_read(tmp_path):
    (tmp_path / "output.log").write_bytes(b"ValueError: early\n" + b"x\n" * TAIL_BYTES + b"\xffRuntimeError: late\n")
    assert why(tmp_path / "output.log", 1).endswith("RuntimeError: late")


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (CASES["node"][0], "srun: error: Node failure on n2"),
        (
            "slurmstepd-n1: error: *** JOB 1 ON n1 CANCELLED AT 2026-11-22T04:51:37 DUE TO NODE FAILURE, SEE SLURMCTLD "
            "LOG FOR DETAILS ***\n",
            "slurmstepd-n1: error: *** JOB 1 ON n1 CANCELLED AT 2026-11-22T04:51:37 DUE TO NODE FAILURE, SEE SLURMCTLD "
            "LOG FOR DETAILS",
        ),
        (CASES["memory limit"][0], ""),
        (CASES["rank killed because another failed"][0], ""),
        ("0: ValueError: what a rank says of a Node failure on n2\n", ""),
    ],
)
def test_only_slurm_says_that_a_node_was_lost(tmp_path, output, line):
    (tmp_path / "output.log").write_text(output)
    assert lost_node(tmp_path / "output.log") == line
