"""A local server that stands in for Globus's transfer service, for the real SDK."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from unit.data.loopback import listening

TASK = "4f2b1a52-0000-4000-8000-000000000001"


@dataclass
class TransferService:
    """Tasks are active for some questions, then end with a status."""

    status: str = "SUCCEEDED"
    questions_active: int = 4
    refusal: int = 0
    submitted: list[dict[str, Any]] = field(default_factory=list)
    authorizations: set[str] = field(default_factory=set)
    questions: int = 0

    def answer(self, place: str, document: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        if self.refusal:
            return self.refusal, {"code": "AuthenticationFailed", "message": "token expired", "request_id": "x"}
        if place == "submission_id":
            return 200, {"value": "5e1c3f00-0000-4000-8000-000000000002"}
        if place == "transfer" and document is not None:
            self.submitted.append(document)
            return 202, {"code": "Accepted", "task_id": TASK}
        if place == f"task/{TASK}":
            return 200, self._task()
        return 404, {"code": "NotFound", "message": place, "request_id": "x"}

    def _task(self) -> dict[str, Any]:
        self.questions += 1
        ended = self.questions > self.questions_active
        done = {"files": 3, "files_transferred": 3 if ended else 1, "bytes_transferred": 7}
        reason = None if self.status == "SUCCEEDED" else "PERMISSION_DENIED"
        return {"task_id": TASK, "status": self.status if ended else "ACTIVE", "nice_status": reason, **done}


@contextmanager
def served_transfers(service: TransferService) -> Iterator[str]:
    """Yield the address of a server for ``service``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, document: dict[str, Any] | None) -> None:
            service.authorizations.add(self.headers.get("Authorization", ""))
            status, answer = service.answer(self.path.partition("?")[0].removeprefix("/v0.10/"), document)
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with listening(Handler) as address:
        yield address
