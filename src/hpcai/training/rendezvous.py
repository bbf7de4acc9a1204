"""Rendezvous of ranks over Gloo: a key-value store that lives as long as a launch, protected by a secret.

Horovod's own server listens on all addresses, accepts every client, stores anything and answers HEAD with facts about
files. Horovod's client, part of its library, sends neither headers nor a scope of its own. The secret is therefore the
first part of each path: the server address passed to the client ends with it.
"""

import hmac
import json
import secrets
import socketserver
import threading
from collections.abc import Mapping, MutableMapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler

ADDRESS = "HOROVOD_GLOO_RENDEZVOUS_ADDR"
PORT = "HOROVOD_GLOO_RENDEZVOUS_PORT"
SECRET = "HPCAI_RENDEZVOUS_SECRET"  # noqa: S105  a name
LOOPBACK = "127.0.0.1"
PLACES = tuple(f"HOROVOD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"))
"""Variables of a rank's indices: among all ranks, on its node, and of its node among all nodes."""
BODY_LIMIT_BYTES = 16 << 20
"""Maximum size of a value [byte]: a rank sends one address per other rank, enough for 100,000 ranks."""
VALUES_PER_RANK = 1000
"""Maximum number of values per rank: each group meets separately, and a launch has far fewer groups."""
REQUEST_LIMIT_S = 30
EVERY = "all_"
"""Start of the key that asks for the text of all ranks of a scope; their number follows."""
_PARTS = 4
"""Parts of a path: an empty one, the secret, the scope and the key."""


def place_variables(host: str, places: Sequence[int]) -> dict[str, str]:
    """Return the variables that pass a rank its indices, named as by horovodrun.

    Parameters
    ----------
    host
        Name of its node.
    places
        A number for each of `PLACES`.
    """
    return {"HOROVOD_HOSTNAME": host, **{name: str(place) for name, place in zip(PLACES, places, strict=True)}}


def new_secret() -> str:
    """Return the secret of one launch."""
    return secrets.token_hex(16)


def reveal_secret(environment: MutableMapping[str, str]) -> None:
    """Add this launch's secret, if any, to the address that Horovod reads; call it before Horovod starts."""
    secret = environment.pop(SECRET, "")
    if secret:
        # Horovod appends the port again, to what is then part of the path.
        environment[ADDRESS] = f"{environment[ADDRESS]}:{environment[PORT]}/{secret}"


def scope_sizes(hosts: Sequence[str], ranks_per_node: int) -> dict[str, int]:
    """Return how many ranks meet in each Horovod scope: all, those of a node, those of one local index on each node."""
    return {
        "global": len(hosts) * ranks_per_node,
        **{f"local_{host}": ranks_per_node for host in hosts},
        **{f"cross_{place}": len(hosts) for place in range(ranks_per_node)},
    }


class Store:
    """Keys and values by scope; a scope is emptied when all its ranks have met.

    Parameters
    ----------
    sizes
        Number of ranks for each scope known in advance.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = dict(sizes)
        self._limit = VALUES_PER_RANK * max(self._sizes.values(), default=1)
        self._values: dict[str, dict[str, bytes]] = {}
        self._count = 0  # counted, because summing over the scopes of many nodes made each value dearer
        self._joined: dict[tuple[str, int], bytes] = {}
        self._arrived: dict[str, int] = {}  # ranks 0, 1, ... without a gap: not counted anew for each rank that asks
        self._finished: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def get(self, scope: str, key: str) -> bytes | None:
        """Return a value; None if it does not exist yet."""
        with self._lock:
            return self._values.get(scope, {}).get(key)

    def get_all(self, scope: str, ranks: int) -> tuple[bytes | None, int]:
        """Return the texts of ranks 0, 1, ... of a scope as a JSON list, None until all are there.

        The second value is the first rank without one. The list is made once, not for each rank that asks.
        """
        with self._lock:
            joined = self._joined.get((scope, ranks))
            if joined is not None:
                return joined, ranks
            values = self._values.get(scope, {})
            missing = self._arrived.get(scope, 0)
            while str(missing) in values:
                missing += 1
            self._arrived[scope] = missing
            if missing < ranks or not ranks:
                return None, min(missing, ranks)
            texts = [values[str(rank)].decode(errors="replace") for rank in range(ranks)]
            return self._joined.setdefault((scope, ranks), json.dumps(texts).encode()), ranks

    def put(self, scope: str, key: str, value: bytes) -> bool:
        """Store a value; False if there are too many."""
        with self._lock:
            values = self._values.setdefault(scope, {})
            if key not in values:
                if self._count >= self._limit:
                    return False
                self._count += 1
            values[key] = value
            self._forget_joined(scope)
            return True

    def finish(self, scope: str, key: str) -> None:
        """Record that a rank has met the others of a scope; in any other scope, delete a key."""
        with self._lock:
            self._forget_joined(scope)
            self._arrived.pop(scope, None)
            if scope not in self._sizes:
                self._count -= self._values.get(scope, {}).pop(key, None) is not None
                return
            finished = self._finished.setdefault(scope, set())
            finished.add(key)
            if len(finished) >= self._sizes[scope]:
                self._count -= len(self._values.pop(scope, {}))
                finished.clear()

    def _forget_joined(self, scope: str) -> None:
        for key in [key for key in self._joined if key[0] == scope]:
            del self._joined[key]


class _Handler(BaseHTTPRequestHandler):
    """Answers GET, PUT and DELETE of single values, and nothing else."""

    timeout = REQUEST_LIMIT_S
    wbufsize = -1  # head and body leave together: the client wakes once
    server: "_Server"

    def do_GET(self) -> None:
        place = self._place()
        if place is not None and place[1].startswith(EVERY):
            self._answer_all(*place)
        elif place is not None:
            value = self.server.store.get(*place)
            self._answer(HTTPStatus.NOT_FOUND if value is None else HTTPStatus.OK, value or b"")

    def do_PUT(self) -> None:
        place = self._place()
        if place is None:
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()) or len(length) > len(str(BODY_LIMIT_BYTES)):
            self._answer(HTTPStatus.LENGTH_REQUIRED)
        elif int(length) > BODY_LIMIT_BYTES:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            self._keep(place, int(length))

    def do_DELETE(self) -> None:
        place = self._place()
        if place is not None:
            self.server.store.finish(*place)
            self._answer(HTTPStatus.OK)

    def _answer_all(self, scope: str, key: str) -> None:
        """Answer with the text of all ranks at once; one request for each would be a million for 1,024 ranks."""
        ranks = key.removeprefix(EVERY)
        if not (ranks.isascii() and ranks.isdecimal()) or len(ranks) > len(str(BODY_LIMIT_BYTES)):
            self._answer(HTTPStatus.BAD_REQUEST)
            return
        joined, missing = self.server.store.get_all(scope, int(ranks))
        status = HTTPStatus.NOT_FOUND if joined is None else HTTPStatus.OK
        self._answer(status, str(missing).encode() if joined is None else joined)

    def _keep(self, place: tuple[str, str], length: int) -> None:
        try:
            value = self.rfile.read(length)
        except OSError:
            self._answer(HTTPStatus.REQUEST_TIMEOUT)
            return
        if len(value) < length:
            self._answer(HTTPStatus.BAD_REQUEST)
        else:
            is_kept = self.server.store.put(*place, value)
            self._answer(HTTPStatus.OK if is_kept else HTTPStatus.INSUFFICIENT_STORAGE)

    def _place(self) -> tuple[str, str] | None:
        """Return scope and key of a request with the secret; answer any other request and return None."""
        parts = self.path.split("/")
        told = parts[1].partition(":")[0] if len(parts) > 1 else ""
        if not hmac.compare_digest(told.encode(), self.server.secret.encode()):
            self._answer(HTTPStatus.FORBIDDEN)
        elif len(parts) != _PARTS:
            self._answer(HTTPStatus.BAD_REQUEST)
        else:
            return parts[2], parts[3]
        return None

    def _answer(self, status: HTTPStatus, value: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(value)))
        self.end_headers()
        self.wfile.write(value)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the library's
        """Log nothing: the output belongs to the ranks."""


class _Server(socketserver.ThreadingTCPServer):
    """Listens on one address."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, address: str, secret: str) -> None:
        super().__init__((address, 0), _Handler)
        self.secret, self.store = secret, Store({})

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that disconnected: it retries, or is not a rank."""


class Rendezvous:
    """The server of one launch.

    Parameters
    ----------
    address
        Address to listen on: loopback, or the network between the nodes.
    secret
        Secret that each request must contain, see `new_secret`.
    """

    def __init__(self, address: str, secret: str) -> None:
        self._address, self._secret = address, secret

    def start(self) -> int:
        """Listen; return the port."""
        self._server = _Server(self._address, self._secret)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return int(self._server.server_address[1])

    def expect(self, hosts: Sequence[str], ranks_per_node: int) -> None:
        """Set which ranks meet."""
        self._server.store = Store(scope_sizes(hosts, ranks_per_node))
