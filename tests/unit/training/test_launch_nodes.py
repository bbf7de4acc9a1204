"""The multi-node launcher: where ranks meet, and how its step ends."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from unit.refusals import refused

from hpcai.core.errors import LaunchError
from hpcai.training import launch_nodes
from hpcai.training.join_step import INTERFACE, interface_towards
from hpcai.training.launch_nodes import NO_INTERFACE, UNKNOWN_PLACE, address_of, own_address

LAYOUT = ["--gloo", "--hosts", "n1,n2", "--ranks-per-node", "1"]


@pytest.fixture
def launcher(tmp_path: Path) -> list[str]:
    """The launcher in a cluster whose second node is this machine."""
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\necho NodeName=n2 Arch=x86_64 NodeAddr=127.0.0.1 NodeHostName=n2\n")
    scontrol.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    return ["env", f"PATH={path}", sys.executable, "-m", "hpcai.training.launch_nodes", *LAYOUT, "--"]


def test_ranks_are_told_where_they_meet(launcher: list[str]) -> None:
    """A task gets from the rendezvous server what another has stored, if it knows the secret."""
    code = """
        import os, http.client
        from hpcai.training.rendezvous import reveal_secret
        reveal_secret(os.environ)
        place, _, path = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"].partition("/")
        port = os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]
        for method in ("PUT", "GET"):
            connection = http.client.HTTPConnection(place)
            body = b"here I am" if method == "PUT" else None
            connection.request(method, f"/{path}:{port}/global/0", body=body)
            answer = connection.getresponse().read()
        names = ("HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS", "HOROVOD_GLOO_TIMEOUT_SECONDS")
        print(place.partition(":")[0], answer.decode(), *(os.environ[name] for name in names))
    """
    done = subprocess.run(
        [*launcher, sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"127.0.0.1 here I am gloo gloo {launch_nodes.GLOO_TIMEOUT_S}"


@pytest.mark.parametrize(("step", "status"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 137)])
def test_it_ends_as_the_step_does(launcher: list[str], step: str, status: int) -> None:
    done = subprocess.run([*launcher, sys.executable, "-c", f"import os, sys; {step}"], check=False)
    assert done.returncode == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_ends_the_step_first(launcher: list[str], tmp_path: Path, number: int) -> None:
    told = tmp_path / "told"
    code = f"""
        import signal, sys, time
        from pathlib import Path
        def end(*_):
            Path({str(told)!r}).write_text("told")
            sys.exit(3)
        signal.signal(signal.SIGTERM, end)
        print("ready", flush=True)
        time.sleep(600)
    """
    process = subprocess.Popen(
        [*launcher, sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.wait() == 128 + number
    assert told.read_text() == "told"


def test_a_step_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_nodes, "END_LIMIT_S", 0.2)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    code = "import os, signal, time; signal.signal(15, signal.SIG_IGN); os.kill(os.getppid(), 15); time.sleep(600)"
    try:
        assert launch_nodes.run_step([sys.executable, "-c", code], dict(os.environ)) == 128 + signal.SIGTERM
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    # Ended children of other tests in this process have no command line.
    alive = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    assert [child for child in alive if code in child.cmdline()] == []


def test_the_interface_that_the_user_names_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INTERFACE, interface_towards("127.0.0.1"))
    assert own_address(["n1", "n2"]) == "127.0.0.1"
    monkeypatch.setenv(INTERFACE, "ib9")
    with refused(LaunchError, NO_INTERFACE, place=f"{INTERFACE}=ib9"):
        own_address(["n1", "n2"])


def test_a_node_whose_place_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with refused(LaunchError, UNKNOWN_PLACE, place="node n2"):
        address_of("n2")
