import json

import pytest
from unit.data.globus_service import TASK, TransferService, served_transfers
from unit.refusals import refused

from hpcai.core.errors import DatasetError
from hpcai.data import globus
from hpcai.data.catalogue import Archive
from hpcai.data.globus import BY_HAND, COLLECTION, ENDED, TOKEN, fetch_folder, forget_transfer

SOURCE, OWN = "0b226e2c-4de0-11ea-971a-021304b0cca7", "11111111-4de0-11ea-971a-021304b0cca7"
ROW = Archive(
    dataset="deepcam_all_hist",
    file="All-Hist",
    url=f"https://app.globus.org/file-manager?origin_id={SOURCE}",
    format="folder",
)
CHECKSUM_LEVEL = 3
"""Number of the sync level *checksum* in a transfer document."""


@pytest.fixture
def variables(monkeypatch):
    monkeypatch.setenv(TOKEN, "t")
    monkeypatch.setenv(COLLECTION, OWN)


@pytest.fixture
def service(monkeypatch, variables):
    """The SDK itself, with the address of a local server in place of Globus's."""
    pytest.importorskip("globus_sdk", reason="the extra `globus` is not installed: run `make env`")
    monkeypatch.setattr(globus, "_TELL_S", 1)
    monkeypatch.setattr(globus, "_POLL_S", 1)  # not below the time to wait, so that it does not sleep
    transfers = TransferService()
    with served_transfers(transfers) as address:
        monkeypatch.setenv("GLOBUS_SDK_SERVICE_URL_TRANSFER", f"{address}/")
        yield transfers


def test_a_folder_is_transferred_with_progress(tmp_path, service, caplog):
    caplog.set_level("INFO", "hpcai")
    assert fetch_folder(ROW, tmp_path / "archive") == tmp_path / "archive/All-Hist"
    (asked,) = service.submitted
    (item,) = asked["DATA"]
    paths = item["source_path"], item["destination_path"]
    assert (*paths, item["recursive"]) == ("/All-Hist", str(tmp_path / "archive/All-Hist"), True)
    assert (asked["source_endpoint"], asked["destination_endpoint"]) == (SOURCE, OWN)
    assert (asked["sync_level"], asked["verify_checksum"]) == (CHECKSUM_LEVEL, True)
    assert service.authorizations == {"Bearer t"}
    told = [line for line in caplog.messages if "of 3 files" in line]
    assert len(told) > 1
    assert ["ACTIVE" in line for line in told] == [True] * (len(told) - 1) + [False]


def test_a_transfer_that_failed_is_an_error(tmp_path, service):
    service.status = "FAILED"
    with refused(DatasetError, ENDED, status="FAILED", reason="PERMISSION_DENIED", task=TASK):
        fetch_folder(ROW, tmp_path)


def test_a_service_that_refuses_is_an_error(tmp_path, service):
    service.refusal = 401
    with pytest.raises(DatasetError, match=r"401.*token expired"):
        fetch_folder(ROW, tmp_path)
    assert not service.submitted


@pytest.fixture
def killed(tmp_path, service, monkeypatch):
    """A process that was killed while its transfer went on; returns the record that it left."""

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(globus, "_tell", die)
        with pytest.raises(KeyboardInterrupt):
            fetch_folder(ROW, tmp_path)
    assert len(service.submitted) == 1
    return tmp_path / "All-Hist.globus-task.json"


def test_a_later_process_waits_for_the_transfer_that_goes_on(tmp_path, service, killed):
    assert service.questions < service.questions_active
    assert fetch_folder(ROW, tmp_path) == tmp_path / "All-Hist"
    assert service.questions > service.questions_active
    assert len(service.submitted) == 1


@pytest.mark.parametrize(("there", "submitted"), [(True, 1), (False, 2)])
def test_what_arrived_meanwhile_is_taken_if_it_is_there(tmp_path, service, killed, there, submitted):
    service.questions_active = 0
    if there:
        (tmp_path / "All-Hist").mkdir()
    fetch_folder(ROW, tmp_path)
    assert len(service.submitted) == submitted


def test_a_transfer_that_failed_is_submitted_again(tmp_path, service, killed):
    service.status, service.questions_active = "FAILED", 0
    with refused(DatasetError, ENDED, status="FAILED"):
        fetch_folder(ROW, tmp_path)
    assert len(service.submitted) == 2


@pytest.mark.parametrize("change", [{"task": "forgotten"}, {"target": "/elsewhere"}, {"collection": SOURCE}])
def test_a_transfer_that_is_unknown_or_another_one_does_not_count(tmp_path, service, killed, change):
    killed.write_text(json.dumps(json.loads(killed.read_text()) | change))
    fetch_folder(ROW, tmp_path)
    assert len(service.submitted) == 2
    assert json.loads(killed.read_text())["task"] == TASK


def test_what_was_not_as_expected_is_compared_again(tmp_path, service, killed):
    (tmp_path / "All-Hist").mkdir()
    fetch_folder(ROW, tmp_path)
    forget_transfer(tmp_path / "All-Hist")
    fetch_folder(ROW, tmp_path)
    assert len(service.submitted) == 2


@pytest.mark.parametrize("lacking", ["globus_sdk", TOKEN, COLLECTION])
def test_the_command_to_do_it_by_hand(tmp_path, variables, monkeypatch, lacking):
    monkeypatch.setattr(globus, "find_spec", lambda name: None if name == lacking else name)
    if lacking != "globus_sdk":
        monkeypatch.delenv(lacking)
    with refused(DatasetError, BY_HAND) as caught:
        fetch_folder(ROW, tmp_path)
    own = "YOUR_COLLECTION" if lacking == COLLECTION else OWN
    expected = f"globus transfer --recursive --sync-level checksum {SOURCE}:/All-Hist {own}:{tmp_path}/All-Hist"
    assert caught.value.facts["command"] == expected
