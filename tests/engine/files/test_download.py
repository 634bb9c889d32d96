"""A model comes from the Hub whole or not at all, whatever happens on the way. The Hub is a server in the test."""

from __future__ import annotations

import itertools
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from engine.files import download, hub, library
from engine.files.download import Download, DownloadProgress, Stopped, unfinished
from engine.values.errors import DraftlightError
from tests.engine import tiny_models
from tests.engine.fakes import PATIENCE
from tests.engine.hub_server import TOKEN, Hub, hub_on_the_loopback

ROOT = Path(__file__).resolve().parents[3]
BIG = "model.safetensors"
HELD = 100_000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.write_folder(tmp_path_factory.mktemp("served") / "model")


@pytest.fixture
def served(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("DRAFTLIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    for name in ("HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    with hub_on_the_loopback(tmp_path, monkeypatch) as running:
        running.serve("org/model", model, config={"model_type": "llama"})
        yield running


class Outcome(NamedTuple):
    place: Path | None
    error: DraftlightError | None


def fetch(name: str = "org/model", waits: tuple[float, ...] = (0.0, 0.0)) -> Outcome:
    """One download from beginning to end."""
    try:
        return Outcome(Download(hub.offer(name), retry_delays=waits).run(), None)
    except DraftlightError as error:
        return Outcome(None, error)


def same(place: Path | None, model: Path) -> bool:
    assert place is not None
    return {file.name: file.read_bytes() for file in place.iterdir()} == {
        file.name: file.read_bytes() for file in model.iterdir()
    }


def found() -> list[str]:
    """What the library takes for a model, wherever it looks."""
    return [one.name for one in library.find()]


def test_a_model_arrives_whole_and_is_found_and_fetched_only_once(served: Hub, model: Path) -> None:
    place = fetch().place
    assert same(place, model)
    assert place == library.download_destination("org/model")
    assert found() == ["org/model"]
    assert unfinished() == []
    assert not any(download.downloads_folder().iterdir())
    sent = dict(served.sent)
    assert fetch().place == place
    assert served.sent == sent, "what is in place was fetched again"


def test_a_head_beside_the_weights_is_fetched_with_them(served: Hub, model: Path) -> None:
    served.files["org/model"] |= {"mtp.safetensors": b"a head", "notes.safetensors": b"something else"}
    place = fetch().place
    assert place is not None and (place / "mtp.safetensors").read_bytes() == b"a head"
    assert {file.name for file in place.iterdir()} == {*(file.name for file in model.iterdir()), "mtp.safetensors"}


@pytest.mark.usefixtures("served")
def test_a_group_that_shares_the_models_may_use_the_lock_as_well() -> None:
    modes = set()

    def look(progress: DownloadProgress) -> None:
        modes.update(stat.S_IMODE(lock.stat().st_mode) for lock in download.downloads_folder().glob("*/.lock"))

    before = os.umask(0o002)
    try:
        Download(hub.offer("org/model"), look).run()
    finally:
        os.umask(before)
    assert modes == {0o664}


@pytest.mark.usefixtures("served")
def test_progress_comes_to_its_end(model: Path) -> None:
    told: list[DownloadProgress] = []
    Download(hub.offer("org/model"), told.append).run()
    assert told[-1].done == told[-1].total == sum(file.stat().st_size for file in model.iterdir())
    assert all(one.done <= two.done for one, two in itertools.pairwise(told))
    assert DownloadProgress(312_000_000, 1_200_000_000, 25e6).words == "312 MB of 1.2 GB · 25 MB/s · 36 s left"


def test_error_in_the_report_ends_the_download_and_keeps_its_files(served: Hub, model: Path) -> None:
    def close(progress: DownloadProgress) -> None:
        raise LookupError("the engine is being closed")

    with pytest.raises(LookupError, match="being closed"):
        Download(hub.offer("org/model"), close).run()
    assert found() == []
    assert same(fetch().place, model)


def test_a_broken_connection_goes_on_where_it_broke(served: Hub, model: Path) -> None:
    served.breaks[BIG] = [70_000, 30_000, 20_000, 10_000]
    assert same(fetch().place, model)
    assert [asked for name, asked in served.asked if name == BIG] == [
        "",
        *(f"bytes={at}-" for at in (70_000, 100_000, 120_000, 130_000)),
    ]
    assert served.sent[BIG] == len(served.files["org/model"][BIG]), "bytes were fetched twice"


def test_download_without_network_ends_offline_and_resumes_later(served: Hub, model: Path) -> None:
    offer = hub.offer("org/model")
    served.breaks[BIG] = [50_000]
    served.status = 200
    asked = served.answer

    def gone_after_the_break(handler: Any, body: bool) -> None:
        if served.sent.get(BIG):
            served.status = 503
        asked(handler, body)

    served.answer = gone_after_the_break  # type: ignore[method-assign]
    with pytest.raises(hub.Offline, match="Try again later"):
        Download(offer, retry_delays=(0.0,)).run()
    assert found() == []
    (left,) = unfinished()
    assert left.name == "org/model" and left.done >= 50_000
    served.answer, served.status = asked, 200  # type: ignore[method-assign]
    assert same(fetch().place, model)
    assert served.sent[BIG] == len(served.files["org/model"][BIG])


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_paused_download_keeps_what_has_arrived_and_a_cancelled_one_nothing(cancelled: bool, served: Hub, model: Path) -> None:
    served.held = (HELD, threading.Event())
    begun = threading.Event()
    running = Download(hub.offer("org/model"), lambda progress: begun.set() if progress.done > 4_000 else None)
    outcome: list[Exception] = []

    def run() -> None:
        try:
            running.run()
        except Stopped as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not served.sent.get(BIG):
        assert thread.is_alive()
        begun.wait(0.01)
    with pytest.raises(DraftlightError, match="being downloaded already"):
        Download(running.offer).run()
    running.cancel() if cancelled else running.pause()
    served.held[1].set()
    thread.join(PATIENCE)
    assert isinstance(outcome[0], Stopped)
    assert found() == []
    assert [left.name for left in unfinished()] == ([] if cancelled else ["org/model"])
    served.held = None
    assert same(fetch().place, model)


def test_a_killed_download_leaves_no_model_and_goes_on(served: Hub, model: Path, tmp_path: Path) -> None:
    served.held = (HELD, threading.Event())
    code = "from engine.files import download, hub; download.Download(hub.offer('org/model')).run()"
    environment = os.environ | {"HF_ENDPOINT": served.address, "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / "hf")}
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment) as process:
        part = download.downloads_folder() / "org%2Fmodel"
        while not any(file.stat().st_size == HELD for file in part.glob(f"{BIG}.*")):
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    served.held[1].set()
    served.held = None
    assert found() == []
    assert [left.name for left in unfinished()] == ["org/model"]
    assert same(fetch().place, model)
    assert [asked for name, asked in served.asked if name == BIG][-1] == f"bytes={HELD}-"


@pytest.mark.parametrize("damaged", [BIG, "config.json"])
def test_a_file_that_arrives_damaged_is_discarded(damaged: str, served: Hub, model: Path) -> None:
    served.damaged.add(damaged)
    error = fetch().error
    assert error is not None and f"{damaged} of org/model arrived damaged" in str(error)
    assert found() == []
    served.damaged.clear()
    sent = dict(served.sent)
    assert same(fetch().place, model)
    assert served.sent[damaged] == 2 * sent[damaged]


def test_a_file_that_turns_out_longer_than_announced_is_discarded(served: Hub) -> None:
    offer = hub.offer("org/model")
    served.files["org/model"][BIG] += b"more"
    with pytest.raises(DraftlightError, match="arrived damaged"):
        Download(offer).run()
    assert found() == []


def test_new_revision_replaces_the_old_one_and_a_kill_leaves_no_mixture(served: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch()
    weights = served.files["org/model"][BIG]
    served.files["org/model"][BIG] = weights[:-1] + bytes([weights[-1] ^ 1])
    replacing = os.replace

    def killed(source: Any, target: Any) -> None:
        if Path(target).name == BIG:
            raise KeyboardInterrupt
        replacing(source, target)

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        fetch()
    assert found() == [], "old weights beside a new configuration"
    monkeypatch.setattr("os.replace", replacing)
    place = fetch().place
    assert place is not None and (place / BIG).read_bytes() == served.files["org/model"][BIG]
    assert found() == ["org/model"]


def test_a_full_disk_is_noticed_before_and_during(served: Hub, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = download.shutil.disk_usage
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: usage(path)._replace(free=download.RESERVE + 1000))
    error = fetch().error
    assert error is not None and "kB more on the disk, and only 200 MB are free" in str(error)
    assert not served.sent
    monkeypatch.setattr(download.shutil, "disk_usage", usage)
    with monkeypatch.context() as full:
        full.setattr(os, "fstatvfs", lambda descriptor: SimpleNamespace(f_bavail=1, f_frsize=4096))
        error = fetch().error
    assert error is not None and "The disk is full. What has arrived of org/model is kept" in str(error)
    assert found() == [] and unfinished()
    assert same(fetch().place, model)


def test_gated_model_needs_a_token_stored_by_huggingface_hub(served: Hub, model: Path, tmp_path: Path) -> None:
    served.gated.add("org/model")
    error = fetch().error
    assert isinstance(error, hub.Gated)
    assert f"Accept its conditions at {served.address}/org/model, then sign in" in str(error)
    assert unfinished() == []
    with pytest.raises(DraftlightError, match="did not accept the token") as refused:
        hub.sign_in("hf_wrong")
    assert "hf_wrong" not in str(refused.value)
    assert not hub.signed_in()
    hub.sign_in(f" {TOKEN}\n")
    assert (tmp_path / "token").read_text() == TOKEN
    assert same(fetch().place, model)


def test_one_gguf_file_of_several_is_chosen_by_its_name(served: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "ggufs"
    folder.mkdir()
    tiny_models.write_gguf(folder / "tiny-Q4_0.gguf", "Q4_0", general__file_type=2)
    tiny_models.write_gguf(folder / "tiny-Q8_0.gguf", "Q8_0", general__file_type=7)
    (folder / "mmproj-tiny.gguf").write_bytes(b"GGUF")
    (folder / "tiny-F32-00001-of-00002.gguf").write_bytes(b"GGUF")
    served.serve("org/tiny-GGUF", folder, tags=["gguf"], gguf={"architecture": "llama", "context_length": 128, "total": 10**6})
    error = fetch("org/tiny-GGUF").error
    assert error is not None and "several GGUF files" in str(error) and "org/tiny-GGUF:tiny-Q4_0.gguf" in str(error)
    assert "split" in str(fetch("org/tiny-GGUF:tiny-F32-00001-of-00002.gguf").error)
    for file in ("tiny-Q8_0.gguf", "tiny-Q4_0.gguf"):
        assert fetch(f"org/tiny-GGUF:{file}").place == library.download_destination("org/tiny-GGUF") / file
    assert found() == ["org/tiny-GGUF/tiny-Q4_0", "org/tiny-GGUF/tiny-Q8_0"]
    library.delete(library.download_destination("org/tiny-GGUF") / "tiny-Q8_0.gguf")
    assert found() == ["org/tiny-GGUF/tiny-Q4_0"]
    library.delete(library.download_destination("org/tiny-GGUF") / "tiny-Q4_0.gguf")
    assert not (download.models_folder() / "org").exists()


@pytest.mark.usefixtures("served")
def test_unwritable_folder_gives_a_message(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file in the way")
    error = fetch().error
    assert error is not None and "org/model cannot be stored in" in str(error) and "DRAFTLIGHT_HOME" in str(error)


@pytest.mark.parametrize("name", ["a\\evil.json", ".evil.json"])
def test_unsafe_file_names_are_refused(name: str, served: Hub) -> None:
    served.files["org/model"][name] = b"{}"
    error = fetch().error
    assert error is not None and "unsafe name" in str(error)
    assert not served.sent


def test_search_marks_unusable_models(served: Hub) -> None:
    served.about |= {"org/pickled": {"tags": []}, "org/new": {"config": {"model_type": "unheard_of"}}}
    served.about["org/big"] = {"safetensors": {"parameters": {"BF16": 7 * 10**9}, "total": 7 * 10**9}, "downloads": 12}
    served.files |= {name: {} for name in served.about if name not in served.files}
    problems = {model.name: model.problem for model in hub.search("org")}
    assert problems["org/model"] == problems["org/big"] == ""
    assert "neither safetensors nor GGUF" in problems["org/pickled"]
    assert "mlx-lm has no architecture unheard_of" in problems["org/new"]
    (big,) = hub.search("big")
    assert (big.parameters, big.downloads) == (7 * 10**9, 12)
    with pytest.raises(DraftlightError, match="There is no org/nothing"):
        hub.offer("org/nothing")


def test_missing_network_gives_a_message(served: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    served.close()
    served.close = lambda: None  # type: ignore[method-assign]
    with pytest.raises(hub.Offline, match=r"cannot be reached\. Models on this machine can be used"):
        hub.search("anything")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(hub.Offline, match="switched off by HF_HUB_OFFLINE"):
        hub.offer("org/model")
