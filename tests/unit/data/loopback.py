"""A local server that stands in for a publisher's, with the faults of real ones."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Publisher:
    """What is served at /file, and how."""

    content: bytes
    etag: str = '"first"'
    ranges: bool = True
    honours_if_range: bool = True
    break_after_bytes: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.requests.append(dict(handler.headers))
        if self.statuses:
            handler.send_error(self.statuses.pop(0))
            return
        start = self._start(handler)
        if start > len(self.content):
            handler.send_error(416)
            return
        body = self.content[start:]
        handler.send_response(206 if start else 200)
        if self.etag:
            handler.send_header("ETag", self.etag)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        for name, value in self.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: self.break_after_bytes.pop(0)] if self.break_after_bytes else body)

    def _start(self, handler: BaseHTTPRequestHandler) -> int:
        wanted, guard = handler.headers.get("Range"), handler.headers.get("If-Range")
        if not self.ranges or wanted is None or (self.honours_if_range and guard != self.etag):
            return 0
        return int(wanted.removeprefix("bytes=").removesuffix("-"))


@contextmanager
def served(publisher: Publisher) -> Iterator[Publisher]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            publisher.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with listening(Handler) as address:
        publisher.url = f"{address}/file"
        yield publisher


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Yield the address of a server that answers with ``handler``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
