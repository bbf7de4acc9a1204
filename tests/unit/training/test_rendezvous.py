"""The rendezvous: who may connect, what is stored, and that nothing else is revealed."""

import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

from hpcai.training import rendezvous
from hpcai.training.rendezvous import ADDRESS, LOOPBACK, PORT, SECRET, Rendezvous, new_secret, reveal_secret

Ask = Callable[..., tuple[int, bytes]]


@pytest.fixture(name="secret")
def make_secret() -> str:
    return new_secret()


@pytest.fixture(name="port")
def make_port(secret: str) -> int:
    """Return the port of a server for two nodes with one rank each."""
    server = Rendezvous(LOOPBACK, secret)
    port = server.start()
    server.expect(["n1", "n2"], 1)
    return port


@pytest.fixture(name="ask")
def make_ask(port: int, secret: str) -> Ask:
    def ask(method: str, path: str, body: bytes = b"", known: str = secret) -> tuple[int, bytes]:
        # Like Horovod's client, which repeats the port. Sent in one piece, so that no refusal comes early.
        head = f"{method} /{known}:{port}{path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((LOOPBACK, port), timeout=30) as connection:
            connection.sendall(head.encode() + body)
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2]

    return ask


def test_what_is_put_is_there_until_all_have_met(ask: Ask) -> None:
    assert ask("GET", "/global/0")[0] == 404
    assert ask("PUT", "/global/0", b"\0here")[0] == 200
    assert ask("GET", "/global/0") == (200, b"\0here")
    for _ in range(2):  # a single rank, however often
        ask("DELETE", "/global/0")
    assert ask("GET", "/global/0") == (200, b"\0here")
    ask("DELETE", "/global/1")
    assert ask("GET", "/global/0")[0] == 404


def test_a_key_of_any_other_scope_goes_by_itself(ask: Ask) -> None:
    for key in ("0", "1"):
        ask("PUT", f"/set/{key}", key.encode())
    ask("DELETE", "/set/0")
    assert [ask("GET", f"/set/{key}")[0] for key in ("0", "1")] == [404, 200]


@pytest.mark.parametrize("known", ["", "0" * 32, "\u00e9"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_without_the_secret_nobody_is_let_in(ask: Ask, method: str, known: str) -> None:
    ask("PUT", "/global/0", b"kept")
    assert ask(method, "/global/0", b"other" if method == "PUT" else b"", known)[0] == 403
    assert ask("GET", "/global/0") == (200, b"kept")


@pytest.mark.parametrize("method", ["HEAD", "POST", "OPTIONS", "TRACE"])
def test_nothing_but_values_is_told(ask: Ask, method: str) -> None:
    assert ask(method, "/global/0")[0] == 501


def test_a_path_of_another_form(ask: Ask) -> None:
    assert ask("GET", "/global")[0] == 400
    assert ask("PUT", "/global/0/1", b"x")[0] == 400


def test_what_is_kept_is_limited(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "BODY_LIMIT_BYTES", 10)
    assert ask("PUT", "/global/0", b"x" * 10)[0] == 200
    assert ask("PUT", "/global/0", b"x" * 11)[0] == 413
    assert ask("GET", "/global/0") == (200, b"x" * 10)


def test_values_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "VALUES_PER_RANK", 2)
    store = rendezvous.Store({"global": 2})
    assert [store.put("any", str(key), b"") for key in range(5)] == [True] * 4 + [False]
    assert store.put("any", "0", b"again")


@pytest.mark.parametrize("length", ["", "-1", "1e3", "9" * 5000])
def test_a_body_of_no_length(port: int, secret: str, length: str) -> None:
    with socket.create_connection((LOOPBACK, port), timeout=30) as connection:
        connection.sendall(f"PUT /{secret}:1/global/0 HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())
        assert connection.recv(100).split()[1] == b"411"


def test_only_the_given_address_is_listened_at(port: int) -> None:
    # All of 127.0.0.0/8 is this machine, and a server on all addresses would answer on each.
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", port), timeout=30):
        pass


def test_horovod_is_told_once() -> None:
    environment = {ADDRESS: "10.0.0.1", PORT: "77", SECRET: "abc"}
    for _ in range(2):
        reveal_secret(environment)
        assert environment == {ADDRESS: "10.0.0.1:77/abc", PORT: "77"}
    alone: dict[str, str] = {}
    reveal_secret(alone)
    assert alone == {}


def test_horovodrun_keeps_the_secret_out_of_command_lines() -> None:
    code = f"""
        import os, pathlib, socket
        parent = pathlib.Path(f"/proc/{{os.getppid()}}/cmdline").read_text() + " ".join(os.sys.argv)
        assert len(os.environ[{SECRET!r}]) == 32
        assert os.environ[{SECRET!r}] not in parent and {SECRET!r} + "=" not in parent
        assert os.environ[{ADDRESS!r}] == {LOOPBACK!r}
        try:
            socket.create_connection(("127.0.0.2", int(os.environ[{PORT!r}])), timeout=30)
        except ConnectionRefusedError:
            print("refused")
    """
    command = [sys.executable, "-m", "hpcai.training.launch", "-np", "1", "--gloo"]
    done = subprocess.run(
        [*command, sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "refused" in done.stdout
