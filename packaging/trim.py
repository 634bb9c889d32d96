"""Removes unused files from Draftlight's dependencies: python packaging/trim.py SITE-PACKAGES

Used for the packages for macOS and Linux, which contain all dependencies. An installation of the wheel is not trimmed. Prints the
bytes saved. Fails if a rule for all platforms matches nothing, so that outdated rules are noticed.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

QT_MODULES = ("Core", "Gui", "Widgets", "Svg", "DBus", "Network", "OpenGL", "OpenGLWidgets", "Test")
"""Qt modules to keep: those that the window or pyqtgraph imports, and those that these are linked with."""
QT_LIBRARIES = (*QT_MODULES, "XcbQpa", "WaylandClient", "WlShellIntegration", "EglFSDeviceIntegration", "EglFsKmsSupport")
QT_PLUGINS = (
    *("platforms", "platformthemes", "platforminputcontexts", "imageformats", "iconengines", "styles", "xcbglintegrations"),
    *("wayland-decoration-client", "wayland-graphics-integration-client", "wayland-shell-integration"),
)
"""Folders of Qt plug-ins to keep."""
UNUSED_PLUGINS = ("virtualkeyboard", "qpdf.", "linuxfb", "eglfs", "qvnc", "minimalegl", "vkkhrdisplay")
"""Parts of the names of plug-ins to remove: a keyboard for touch screens, PDF, and screens without a desktop."""


@dataclass(frozen=True)
class Rule:
    """A pattern of files or folders to remove, relative to the folder of packages.

    Attributes:
        everywhere: whether it matches on every platform; False if only some platforms have such files.
    """

    pattern: str
    why: str
    everywhere: bool = True


RULES = (
    Rule("cmeel.prefix/include", "for compilers", everywhere=False),
    Rule("mlx/include", "for compilers"),
    Rule("numpy/**/tests", "numpy's own tests"),
    Rule("numpy/_core/include", "for compilers"),
    Rule("numpy/f2py", "for Fortran"),
    Rule("pyqtgraph/examples", "examples"),
    Rule("bin", "commands of the packages"),
    Rule("pip", "the built-in model is in the package"),
    Rule("pip-*.dist-info", "the same"),
)


def is_unused_qt(path: Path) -> bool:
    """Returns whether to remove a path directly in PySide6, PySide6/Qt, its `lib`, its `plugins` or a folder of plug-ins."""
    name, folder = path.name, path.parent.name
    if folder == "lib":
        stem = name.removeprefix("lib").removeprefix("Qt6").removeprefix("Qt").split(".")[0]
        is_module = name.startswith(("libQt6", "Qt"))
        return is_module and stem not in QT_LIBRARIES
    if folder == "plugins":
        return name not in QT_PLUGINS
    if folder in QT_PLUGINS:
        return any(part in name for part in UNUSED_PLUGINS)
    if folder == "Qt":
        return name not in ("lib", "plugins")
    if name.startswith("Qt") and name.endswith((".abi3.so", ".pyi")):
        return name.endswith(".pyi") or name.removeprefix("Qt").split(".")[0] not in QT_MODULES
    if name.endswith((".pyi", ".app")) or name.startswith("libpyside6qml"):
        return True
    return name not in ("Qt", "support") and "." not in name and not name.startswith("_")


def unused_of_qt(site: Path) -> list[Path]:
    """Returns the paths of PySide6 to remove: modules, plug-ins, tools, and files for compilers and editors."""
    package = site / "PySide6"
    folders = [package, package / "Qt", package / "Qt" / "lib", package / "Qt" / "plugins"]
    folders += [package / "Qt" / "plugins" / name for name in QT_PLUGINS]
    return [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir()) if is_unused_qt(path)]


def remove(paths: list[Path]) -> int:
    """Removes files and folders and returns their bytes. Links count as 0 bytes and are not followed."""
    freed = 0
    for path in paths:
        if path.is_symlink() or path.is_file():
            freed += 0 if path.is_symlink() else path.stat().st_size
            path.unlink()
        elif path.is_dir():
            freed += sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())
            shutil.rmtree(path)
    return freed


def one_copy_of_openblas(site: Path) -> int:
    """Replaces copies of the OpenBLAS library by links and returns the bytes saved. Its wheel has three copies of one file."""
    library = site / "cmeel.prefix" / "lib" / "libopenblas.so"
    copies = [path for path in library.parent.glob("libopenblas.so.*") if not path.is_symlink()] if library.is_file() else []
    freed = remove(copies)
    for path in copies:
        path.symlink_to(library.name)
    return freed


def main() -> int:
    """Removes the files and prints the bytes saved; returns 1 if a rule is outdated."""
    site = Path(sys.argv[1])
    if not (site / "PySide6" / "Qt").is_dir():
        print(f"{site} is not a folder of packages with PySide6.", file=sys.stderr)
        return 1
    freed = {"PySide6": remove(unused_of_qt(site)), "OpenBLAS": one_copy_of_openblas(site)}
    stale = []
    for rule in RULES:
        paths = sorted(site.glob(rule.pattern))
        if rule.everywhere and not paths:
            stale.append(rule.pattern)
        package = rule.pattern.split("/")[0]
        freed[package] = freed.get(package, 0) + remove(paths)
    for package, size in freed.items():
        print(f"{package:<16} {size / 1e6:7.1f} MB removed")
    if stale:
        print(f"packaging/trim.py: nothing matches {', '.join(stale)}", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
