"""What the packages for macOS and Linux leave out: nothing that the program needs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import PySide6
import pytest

from tests.packaging import REPOSITORY, script

trim = script("trim.py")
QT_NAME = re.compile(rb"/Qt(\w+)\.framework/" if sys.platform == "darwin" else rb"libQt6(\w+)\.so\.6")


def test_kept_libraries_of_qt_have_all_their_dependencies() -> None:
    site = Path(PySide6.__file__).parents[1]
    gone = set(trim.unused_of_qt(site))
    package = site / "PySide6"
    stay = [
        file
        for file in package.rglob("*")
        if file.is_file() and file.suffix not in (".py", ".pyc") and not gone.intersection([file, *file.parents])
    ]
    linked = {name.decode() for file in stay for name in QT_NAME.findall(file.read_bytes())}
    assert {"Core", "Gui", "Widgets"} <= linked <= set(trim.QT_LIBRARIES)
    plugins = {file.parent.name for file in stay if "plugins" in file.parts}
    assert {"platforms", "imageformats", "iconengines"} <= plugins
    whole = sum(file.stat().st_size for file in package.rglob("*") if file.is_file())
    assert sum(file.stat().st_size for file in stay) < 0.6 * whole


def test_modules_that_the_window_imports_are_kept() -> None:
    imported = {
        name for file in (REPOSITORY / "app").rglob("*.py") for name in re.findall(r"from PySide6\.Qt(\w+)", file.read_text())
    }
    assert {"Core", "Gui", "Widgets"} <= imported <= set(trim.QT_MODULES)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with what the rules name, and what they must leave."""
    names = [
        *("PySide6/QtCore.abi3.so", "PySide6/QtQml.abi3.so", "PySide6/QtCore.pyi", "PySide6/designer", "PySide6/__init__.py"),
        *("PySide6/libpyside6.abi3.so.6.11", "PySide6/Qt/lib/libQt6Core.so.6", "PySide6/Qt/lib/libQt6Qml.so.6"),
        *("PySide6/Qt/lib/libicudata.so.73", "PySide6/Qt/lib/QtGui.framework/QtGui", "PySide6/Qt/lib/QtQuick.framework/QtQuick"),
        *("PySide6/Qt/plugins/platforms/libqcocoa.dylib", "PySide6/Qt/plugins/platforms/libqvnc.so", "PySide6/Qt/qml/a.qml"),
        *("mlx/include/mlx.h", "mlx/lib/mlx.metallib", "numpy/lib/tests/test_a.py", "numpy/_core/include/a.h", "numpy/f2py/a.py"),
        *("pyqtgraph/examples/a.py", "bin/tqdm", "pip/__main__.py", "pip-26.3.dist-info/METADATA"),
        *("cmeel.prefix/lib/libopenblas.so", "cmeel.prefix/lib/libopenblas.so.0", "numpy/testing/__init__.py"),
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    return tmp_path


def test_trim_removes_what_rules_name(site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["trim.py", str(site)])
    assert trim.main() == 0
    left = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file() and not path.is_symlink()}
    assert left == {
        *("PySide6/QtCore.abi3.so", "PySide6/__init__.py", "PySide6/libpyside6.abi3.so.6.11", "PySide6/Qt/lib/libQt6Core.so.6"),
        *(
            "PySide6/Qt/lib/libicudata.so.73",
            "PySide6/Qt/lib/QtGui.framework/QtGui",
            "PySide6/Qt/plugins/platforms/libqcocoa.dylib",
        ),
        *("mlx/lib/mlx.metallib", "cmeel.prefix/lib/libopenblas.so", "numpy/testing/__init__.py"),
    }
    assert (site / "cmeel.prefix/lib/libopenblas.so.0").read_text() == "x"
    # a second time the rules find nothing, as they would after a package has changed
    assert trim.main() == 1
    assert "nothing matches mlx/include" in capsys.readouterr().err
