"""Who may import whom: the contracts of pyproject.toml hold, and each one fails when it is violated."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"

LEADS_TO_MLX = {"engine/planted_model.py": "def load():\n    import mlx.core as mx\n\n    return mx\n"}

VIOLATIONS = {
    # what is planted, the contract that it breaks, and the import that the report names
    "engine imports Qt": (
        {"engine/planted_qt.py": "from PySide6.QtCore import QTimer\n"},
        "The engine knows nothing of the window",
        "engine.planted_qt -> PySide6",
    ),
    "engine imports the window, inside a function": (
        {"engine/planted.py": "def show():\n    import app.planted\n", "app/planted.py": ""},
        "The engine knows nothing of the window",
        "engine.planted -> app.planted",
    ),
    "the window imports mlx_lm": (
        {"app/planted_mlx_lm.py": "import mlx_lm\n"},
        "The window reaches MLX only through engine.runtime.worker",
        "app.planted_mlx_lm -> mlx_lm",
    ),
    "the window imports a module of the engine that imports MLX": (
        {"app/planted_loader.py": "import engine.planted_model\n", **LEADS_TO_MLX},
        "The window reaches MLX only through engine.runtime.worker",
        "app.planted_loader -> engine.planted_model",
    ),
    "the session imports a view": (
        {"app/session/planted.py": "from app.look.theme import Theme\nfrom app.lanes.lanes import Lanes\n"},
        "A room of the window imports the rooms below it only",
        "app.session.planted -> app.lanes.lanes",
    ),
    "the lanes import the charts beside them": (
        {"app/lanes/planted.py": "def show():\n    import app.charts.chart\n"},
        "A room of the window imports the rooms below it only",
        "app.lanes.planted -> app.charts.chart",
    ),
    "a room that no contract knows": (
        {"app/planted_room/__init__.py": ""},
        "A room of the window imports the rooms below it only",
        "- app.planted_room",
    ),
    "the models import the decode loop, through a module of their own": (
        {
            "engine/models/planted.py": "import engine.models.planted_too\n",
            "engine/models/planted_too.py": "import engine.decode.decoding\n",
        },
        "A room of the engine imports the rooms below it only",
        "engine.models.planted_too -> engine.decode.decoding",
    ),
    "two modules of one room import each other, one of them inside a function": (
        {
            "app/look/planted.py": "import app.look.planted_too\n",
            "app/look/planted_too.py": "def f():\n    import app.look.planted\n",
        },
        "No modules and no rooms import each other in a circle",
        "- .planted_too -> .planted (",
    ),
    "the window imports what is behind the door of the chats": (
        {"app/session/planted_database.py": "from engine.chats.database import Database\n"},
        "The window and the command line know the chats' door only",
        "app.session.planted_database -> engine.chats.database",
    ),
    "the session's values import Qt": (
        {"app/session/session.py": "from PySide6.QtCore import QTimer\n"},
        "What a replay and an export need of the window's rooms is free of Qt",
        "app.session.session -> PySide6",
    ),
    "metrics import a module of the engine that imports MLX": (
        {"engine/rounds/metrics.py": "from engine.planted_model import load\n", **LEADS_TO_MLX},
        "Values, mathematics, traces and metrics need no MLX",
        "engine.rounds.metrics -> engine.planted_model",
    ),
}


def copy_of_the_code(folder: Path) -> None:
    for name in ("app", "engine"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", folder)


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run([sys.executable, "-c", LINT], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_contracts_hold(tmp_path: Path) -> None:
    copy_of_the_code(tmp_path)
    result = lint(tmp_path)
    assert result.returncode == 0, result.stdout


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns the linter's output for a copy of the code that contains all violations, each in a module of its own."""
    folder = tmp_path_factory.mktemp("planted")
    copy_of_the_code(folder)
    for files, *_ in VIOLATIONS.values():
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            with (folder / name).open("a") as file:
                file.write(text)
    result = lint(folder)
    assert result.returncode == 1, result.stdout
    return result.stdout


@pytest.mark.parametrize("violation", VIOLATIONS)
def test_a_planted_violation_fails(report: str, violation: str) -> None:
    _, contract, why = VIOLATIONS[violation]
    assert re.search(rf"^{re.escape(contract)}.* BROKEN", report, re.MULTILINE), report
    _, reasons = re.split(rf"^{re.escape(contract)}.*\n-+$", report, flags=re.MULTILINE)
    assert why in reasons.split("\n---")[0], report


IMPORT_ALL = """
import importlib, pkgutil, sys

root, *hidden = sys.argv[1:]


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"{name} is hidden in this test", name=name)


sys.meta_path.insert(0, Hidden())
package = importlib.import_module(root)
for module in pkgutil.walk_packages(package.__path__, root + "."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


@pytest.mark.parametrize(
    ("package", "hidden"), [("engine", ("app", "PySide6", "shiboken6", "pyqtgraph", "pytestqt")), ("app", ("mlx", "mlx_lm"))]
)
def test_every_module_imports_without_the_other_side(package: str, hidden: tuple[str, ...]) -> None:
    """Imports every module of one side while the other side's packages are hidden: the contracts read only the source, so they
    miss some imports. The thread that imports MLX first owns its streams, so the window must not import it."""
    subprocess.run([sys.executable, "-c", IMPORT_ALL, package, *hidden], cwd=REPOSITORY, check=True, timeout=300)
