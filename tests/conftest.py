"""Fixtures and guards of all tests: a data folder of its own, the built-in model on request, no thread or warning left behind.

Nothing here imports Qt or MLX: the engine's tests run on a machine without Qt (tests/app/conftest.py guards the window).
"""

from __future__ import annotations

import functools
import gc
import itertools
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.files.paths import models_folder
from engine.machine.mlx_import import Kind, device_kind

if TYPE_CHECKING:
    from engine.models.loaded import LoadedModel

HOME = pytest.StashKey[Path]()
SECONDS_TO_END = 30.0
"""A thread that was told to end may take this long before it counts as leaked. Only leaks wait for it."""


def pytest_configure(config: pytest.Config) -> None:
    """Points everything that Draftlight and Qt write at a temporary folder, and MLX at a fast BLAS, before they are imported."""
    home = Path(tempfile.mkdtemp(prefix="draftlight-tests-"))
    config.stash[HOME] = home
    _furnish(home / "data")
    os.environ["DRAFTLIGHT_HOME"] = str(home / "data")
    for variable in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"):
        folder = home / variable.lower()
        folder.mkdir(mode=0o700)
        os.environ[variable] = str(folder)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    # No test may wait for a hub: what is not on this machine is not there.
    os.environ["HF_HUB_OFFLINE"] = "1"
    _keep_to_one_core()
    # tqdm (through transformers) would otherwise start a thread of its own that never ends.
    os.environ.setdefault("TQDM_DISABLE", "1")
    # Every worker and each of some hundred processes that tests start would otherwise compile the whole project anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


MOST_WORKERS = 4
"""More would each hold the built-in model, and end no sooner: a few long tests decide."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores for this process; none for tests chosen by name, which are done before workers have started.

    The tests of the window wait for it a fifth of their time, which another worker uses.
    """
    if config.args_source is pytest.Config.ArgsSource.ARGS or config.option.keyword:
        return 0
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(cores + 1, MOST_WORKERS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Every worker computes on one thread, or the threads of all would wait for each other (`engine.machine.blas`)."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _keep_to_one_core() -> None:
    """Keeps a worker's threads from waking each other for every operation of MLX, which took a third of the suite's time.

    MLX hands each operation to a thread of its own. On another core that thread wakes and sleeps some six hundred times in one
    round of a tiny model; on the same core it finds all operations there once whoever asked for them begins to wait.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if sys.platform == "linux" and worker.startswith("gw"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker[2:]) % len(cores)]})
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[HOME], ignore_errors=True)


_SHARED_MODELS = models_folder()


def _furnish(data: Path) -> None:
    """An empty data folder that shares the machine's models, so that the built-in one is fetched once and for all."""
    data.mkdir(parents=True)
    _SHARED_MODELS.mkdir(parents=True, exist_ok=True)
    (data / "models").symlink_to(_SHARED_MODELS.resolve(), target_is_directory=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    # Before pytest chooses by marker, and, further down, after pytest-randomly has drawn the order.
    for item in items:
        if "builtin" in getattr(item, "fixturenames", ()):
            item.add_marker("builtin")
        if item.get_closest_marker("metal") and _device() != "metal":
            item.add_marker(pytest.mark.skip(reason="needs Apple's GPU"))
        if item.get_closest_marker("gpu") and _device() == "cpu":
            item.add_marker(pytest.mark.skip(reason="needs a GPU that MLX computes on"))
    yield
    if "PYTEST_XDIST_WORKER" in os.environ:
        # The longest tests first, so that no worker begins one when the others are about to end; and with one worker, so that
        # only that one loads the built-in model.
        items.sort(key=lambda item: item.get_closest_marker("builtin") is None)


_FREEZING = {"freeze": gc.freeze, "unfreeze": gc.unfreeze}


def pytest_collection_finish() -> None:
    """What thousands of collected tests and their modules consist of stays to the end: no collection need walk over it.

    Windows, replays and benchmarks set aside what they have, and in the end take everything in again. In tests they do neither.
    """
    gc.collect()
    gc.freeze()
    for name in _FREEZING:
        setattr(gc, name, lambda: None)


@functools.cache
def _device() -> Kind:
    """What MLX computes on; it is imported only where that may be a GPU."""
    if device_kind() == "cpu":
        return "cpu"
    from engine.machine.device import kind

    return kind()


@pytest.fixture(scope="session")
def builtin() -> LoadedModel:
    """The built-in target. Loading takes seconds; it is never changed by a test."""
    from engine.models.loading import load

    return load("builtin")


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Files of a random target and of a draft model near it. No test changes them."""
    from tests.engine.tiny_models import write_pair

    return write_pair(tmp_path_factory.mktemp("tiny-pair"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of this test's own, without traces or settings; models are shared."""
    data = tmp_path / "draftlight-home"
    _furnish(data)
    monkeypatch.setenv("DRAFTLIGHT_HOME", str(data))
    return data


@pytest.fixture(autouse=True)
def mlx_draws_the_same() -> None:
    """MLX's own generator starts from the clock and goes on from test to test. pytest-randomly resets Python's and numpy's."""
    if "mlx.core" in sys.modules:
        sys.modules["mlx.core"].random.seed(0)


TESTS_BETWEEN_COLLECTIONS = 100
"""Windows that were closed stay in memory until then, two megabytes each; a collection takes 0.2 seconds."""
_tests_since_collection = itertools.count(1)


@pytest.fixture(autouse=True)
def garbage_of_qt_is_collected_between_tests() -> Iterator[None]:
    """Once there is an application, garbage is collected here only, and where a window does so (`app.window.gc_scheduler`).

    Windows of earlier tests are garbage. Collected wherever an object happens to be made, in the middle of a call from Qt or in
    another thread, they crash a later test.
    """
    _hold_garbage_of_qt()
    yield
    _hold_garbage_of_qt()
    if not gc.isenabled() and next(_tests_since_collection) % TESTS_BETWEEN_COLLECTIONS == 0:
        gc.collect()


@pytest.fixture
def real_freezing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For tests of what is set aside from the garbage collector; nothing is at their start."""
    for name, function in _FREEZING.items():
        monkeypatch.setattr(gc, name, function)
    gc.unfreeze()
    yield
    gc.freeze()


def _hold_garbage_of_qt() -> None:
    core = sys.modules.get("PySide6.QtCore")
    if core is not None and core.QCoreApplication.instance() is not None:
        gc.disable()


@pytest.fixture(autouse=True)
def no_leaked_threads() -> Iterator[None]:
    """Fails a test that leaves a Python thread running."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + SECONDS_TO_END
    leaked = []
    for thread in set(threading.enumerate()) - before:
        # Threads that Qt or MLX started appear as dummies once they call into Python, and cannot be joined.
        if not isinstance(thread, threading._DummyThread):
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                leaked.append(thread.name)
    assert not leaked, f"threads left running: {', '.join(sorted(leaked))}"


@pytest.fixture(autouse=True)
def no_unexpected_log_warnings(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test in which something logs a warning or worse. A test that asks for `caplog` judges its log itself.

    transformers is left out: it hands its records on only where `CI` is set, and a test must not depend on that.
    """
    records: list[logging.LogRecord] = []
    handler = logging.Handler(logging.WARNING)
    handler.addFilter(lambda record: not record.name.startswith("transformers."))
    handler.emit = records.append  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    yield
    logging.getLogger().removeHandler(handler)
    if records and "caplog" not in request.fixturenames:
        pytest.fail("unexpected in the log: " + "; ".join(f"{record.name}: {record.getMessage()}" for record in records))
