import sys
from types import SimpleNamespace

import pytest
from unit.refusals import refused

from hpcai.core.errors import DatasetError
from hpcai.data import globus
from hpcai.data.catalogue import Archive
from hpcai.data.globus import BY_HAND, COLLECTION, ENDED, TOKEN, fetch_folder

SOURCE = "0b226e2c-4de0-11ea-971a-021304b0cca7"
ROW = Archive(
    dataset="deepcam_all_hist",
    file="All-Hist",
    url=f"https://app.globus.org/file-manager?origin_id={SOURCE}",
    format="folder",
)


class Refused(Exception):
    pass


class Client:
    status, asked = "SUCCEEDED", []

    def __init__(self, authorizer):
        assert authorizer == "token t"

    def submit_transfer(self, request):
        self.request, self.waits = request, 0
        Client.asked.append(request)
        return {"task_id": "task-1"}

    def task_wait(self, task, timeout, polling_interval):
        self.waits += 1
        return self.waits > 2

    def get_task(self, task):
        done = {"files_transferred": self.waits, "files": 3, "bytes_transferred": 7}
        return {**done, "status": Client.status if self.waits > 2 else "ACTIVE", "nice_status": "PERMISSION_DENIED"}


class Request(dict):
    def add_item(self, source, target, recursive):
        self["item"] = (source, target, recursive)


@pytest.fixture
def service(monkeypatch):
    parts = {"TransferClient": Client, "TransferData": Request, "GlobusError": Refused}
    module = SimpleNamespace(**parts, AccessTokenAuthorizer=lambda token: f"token {token}")
    monkeypatch.setitem(sys.modules, "globus_sdk", module)
    monkeypatch.setattr(globus, "find_spec", lambda name: name)
    monkeypatch.setattr(Client, "asked", [])
    monkeypatch.setenv(TOKEN, "t")
    monkeypatch.setenv(COLLECTION, "mine")


def test_a_folder_is_transferred_with_progress(tmp_path, service, caplog):
    caplog.set_level("INFO")
    assert fetch_folder(ROW, tmp_path / "archive") == tmp_path / "archive/All-Hist"
    (asked,) = Client.asked
    assert asked["item"] == ("/All-Hist", str(tmp_path / "archive/All-Hist"), True)
    assert (asked["source_endpoint"], asked["destination_endpoint"]) == (SOURCE, "mine")
    assert (asked["sync_level"], asked["verify_checksum"]) == ("checksum", True)
    assert [line.count("of 3 files") for line in caplog.messages[-3:]] == [1, 1, 1]


def test_a_failed_transfer_is_an_error(tmp_path, service, monkeypatch):
    monkeypatch.setattr(Client, "status", "FAILED")
    with refused(DatasetError, ENDED, status="FAILED", reason="PERMISSION_DENIED"):
        fetch_folder(ROW, tmp_path)
    monkeypatch.setattr(Client, "task_wait", lambda *_, **__: (_ for _ in ()).throw(Refused("401")))
    with pytest.raises(DatasetError, match="401"):
        fetch_folder(ROW, tmp_path)


@pytest.mark.parametrize("lacking", ["globus_sdk", TOKEN, COLLECTION])
def test_the_command_to_do_it_by_hand(tmp_path, service, monkeypatch, lacking):
    if lacking == "globus_sdk":
        monkeypatch.setattr(globus, "find_spec", lambda name: None)
    else:
        monkeypatch.delenv(lacking)
    with refused(DatasetError, BY_HAND) as caught:
        fetch_folder(ROW, tmp_path)
    own = "YOUR_COLLECTION" if lacking == COLLECTION else "mine"
    expected = f"globus transfer --recursive --sync-level checksum {SOURCE}:/All-Hist {own}:{tmp_path}/All-Hist"
    assert caught.value.facts["command"] == expected
    assert not Client.asked
