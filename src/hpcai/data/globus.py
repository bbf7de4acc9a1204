"""Fetch a folder that only Globus delivers: submit the transfer, wait, and show its progress."""

import logging
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hpcai.config.base import Settings
from hpcai.core.errors import DatasetError
from hpcai.core.files import write_atomically
from hpcai.core.messages import Message, at
from hpcai.data.catalogue import Archive
from hpcai.data.tabled import read_json

logger = logging.getLogger(__name__)
BY_HAND = Message(
    "globus.by_hand",
    "only Globus delivers this folder, and {lacking}; set it and start again, or transfer it by hand and then use "
    "`source: existing`:\n  globus login\n  {command}",
)
ENDED = Message(
    "globus.ended", "the transfer {task} ended with {status} ({reason}); correct this and start again: {again}"
)
TOKEN, COLLECTION = "GLOBUS_TRANSFER_TOKEN", "GLOBUS_COLLECTION"
"""Environment variables: an access token of the transfer service, and the collection that shows this file system."""
_SITE = "app.globus.org"
_POLL_S, _TELL_S = 10, 60
_NOT_KNOWN = {403, 404}
"""Statuses for a task that the service has forgotten, or that belongs to another user."""


class _Task(Settings):
    """A submitted transfer: its task, and from which address into which folder of which collection it writes."""

    url: str
    collection: str
    target: str
    task: str


def collection_of(archive: Archive) -> str:
    """Return the Globus collection of a row of datasets.tsv; blank if its address names none."""
    address = urlsplit(archive.url)
    return parse_qs(address.query).get("origin_id", [""])[0] if address.hostname == _SITE else ""


def fetch_folder(archive: Archive, folder: Path) -> Path:
    """Transfer a folder with Globus, which verifies the checksum of every file, and return its path.

    A transfer outlasts this process: a later call waits for it, or takes what it has brought. One that failed is
    submitted again and sends only what is missing or differs. The caller examines all samples.

    Parameters
    ----------
    archive
        Row of datasets.tsv.
    folder
        Target folder, as the collection of this file system shows it.

    Raises
    ------
    DatasetError
        If globus-sdk or a variable is missing, with the command to do it by hand, or if the transfer fails.
    """
    target = (folder / archive.file).absolute()
    source, own = collection_of(archive), os.environ.get(COLLECTION, "")
    lacking = [f"{name} is not set" for name in (TOKEN, COLLECTION) if not os.environ.get(name)]
    if find_spec("globus_sdk") is None:
        lacking.insert(0, "globus-sdk is not installed (`make env`, or `pip install '.[globus]'`)")
    if lacking:
        places = f"{source}:/{archive.file} {own or 'YOUR_COLLECTION'}:{target}"
        command = f"globus transfer --recursive --sync-level checksum {places}"
        raise DatasetError(at(archive.url, BY_HAND(lacking=", ".join(lacking), command=command)))
    folder.mkdir(parents=True, exist_ok=True)
    _transfer(archive, own, target)
    return target


def forget_transfer(target: Path) -> None:
    """Let the next `fetch_folder` compare every file again, because what a transfer has brought is not as expected."""
    _record(target).unlink(missing_ok=True)


def _record(target: Path) -> Path:
    return target.with_name(target.name + ".globus-task.json")


def _transfer(archive: Archive, own: str, target: Path) -> None:
    import globus_sdk

    client = globus_sdk.TransferClient(authorizer=globus_sdk.AccessTokenAuthorizer(os.environ[TOKEN]))
    try:
        task = _earlier_task(client, archive, own, target) or _submitted_task(client, archive, own, target)
        while not client.task_wait(task, timeout=_TELL_S, polling_interval=_POLL_S):
            _tell(archive, client.get_task(task))
        ended = client.get_task(task)
    except globus_sdk.GlobusError as error:
        raise DatasetError(
            f"{archive.url}: Globus refuses the transfer ({error}), expected it to start; "
            f"check {TOKEN} and {COLLECTION}"
        ) from error
    _tell(archive, ended)
    if ended["status"] != "SUCCEEDED":
        words = ENDED(
            task=task, status=ended["status"], reason=ended["nice_status"] or "no reason given",
            again="what has arrived is not sent again",
        )  # fmt: skip
        raise DatasetError(at(archive.url, words))


def _earlier_task(client: Any, archive: Archive, own: str, target: Path) -> str:  # noqa: ANN401  a class of an extra
    """Return the task that an earlier process submitted for this folder, unless it failed; else a blank."""
    import globus_sdk

    record = _record(target)
    if not record.exists():
        return ""
    known = read_json(record, _Task, f"remove {record}")
    if known != _Task(url=archive.url, collection=own, target=str(target), task=known.task):
        return ""
    try:
        status = client.get_task(known.task)["status"]
    except globus_sdk.TransferAPIError as error:
        if error.http_status in _NOT_KNOWN:
            return ""
        raise
    if status == "FAILED" or (status == "SUCCEEDED" and not target.is_dir()):
        return ""
    logger.info("%s: Globus transfer %s of an earlier start: %s", archive.dataset, known.task, status)
    return known.task


def _submitted_task(client: Any, archive: Archive, own: str, target: Path) -> str:  # noqa: ANN401  a class of an extra
    """Submit the transfer, and note its task beside the folder."""
    import globus_sdk

    request = globus_sdk.TransferData(
        source_endpoint=collection_of(archive), destination_endpoint=own, label=f"hpcai {archive.dataset}",
        sync_level="checksum", verify_checksum=True,
    )  # fmt: skip
    request.add_item(f"/{archive.file}", str(target), recursive=True)
    task = str(client.submit_transfer(request)["task_id"])
    noted = _Task(url=archive.url, collection=own, target=str(target), task=task)
    write_atomically(_record(target), (noted.model_dump_json(indent=1) + "\n").encode())
    logger.info("%s: Globus transfer %s to %s", archive.dataset, task, target)
    return task


def _tell(archive: Archive, state: Any) -> None:  # noqa: ANN401  a response of the service
    done, files, sent = state["files_transferred"], state["files"], state["bytes_transferred"]
    logger.info("%s: %s of %s files, %s bytes, %s", archive.dataset, done, files, sent, state["status"])
