"""Every public module, class, function and method says what it is for."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]

# What Qt calls and documents. Only names that nothing but Qt would have: one like `paint` or `data` has to say what it is for.
# fmt: off
QT_OVERRIDES = frozenset({
    # events
    "contextMenuEvent", "eventFilter", "focusInEvent", "focusOutEvent", "keyPressEvent", "leaveEvent",
    "mouseDoubleClickEvent", "mouseMoveEvent", "mousePressEvent", "mouseReleaseEvent", "paintEvent", "resizeEvent",
    "showEvent", "viewportEvent", "wheelEvent",
    # sizes and layouts
    "addItem", "boundingRect", "hasHeightForWidth", "heightForWidth", "itemAt", "minimumSize", "minimumSizeHint",
    "setGeometry", "sizeHint", "takeAt",
    # models and boxes
    "columnCount", "createEditor", "headerData", "initStyleOption", "rowCount", "setData", "showPopup", "updateEditorGeometry",
    # screen readers
    "addSelection", "characterCount", "characterRect", "cursorPosition", "offsetAtPoint", "removeSelection",
    "scrollToSubstring", "selectionCount", "setCursorPosition", "setSelection",
})
# fmt: on
EXEMPT = {"app": QT_OVERRIDES, "engine": frozenset[str]()}

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

PLANTED = {
    "__init__.py": '"""A package."""\n',
    "_hidden.py": "def _helper(): ...\n",
    "bare.py": "number = 1\n",
    "sound.py": '''
"""A module."""


class Described(QWidget):
    """A class."""

    def paintEvent(self, event): ...

    def _private(self): ...

    @property
    def width(self):
        """A property."""

    @width.setter
    def width(self, value): ...
''',
    "faulty.py": '''
"""A module."""


class Silent:
    def paintEvent(self, event): ...

    async def method(self):
        """"""

    @property
    def value(self): ...


class _Private(Silent):
    def paint(self, painter): ...


if True:

    def paintEvent(event):
        # no docstring
        def inner():
            "A docstring."

            class Deep: ...
''',
}


def undocumented(folder: Path, exempt: Collection[str]) -> list[str]:
    """What is public below `folder` and has no docstring, as "path:line name"; `exempt`: methods that overrides may have."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        tree, name = ast.parse(path.read_text(encoding="utf-8")), path.relative_to(folder).as_posix()
        if not ast.get_docstring(tree) and (path.name == "__init__.py" or not path.name.startswith("_")):
            found.append(f"{name}:1 module")
        for definition, title, within in _definitions(tree, ""):
            if definition.name.startswith("_") or ast.get_docstring(definition) or _is_setter(definition):
                continue
            if not (isinstance(within, ast.ClassDef) and within.bases and definition.name in exempt):
                found.append(f"{name}:{definition.lineno} {title}")
    return found


def _definitions(node: ast.AST, prefix: str, within: ast.AST | None = None) -> Iterator[tuple[Definition, str, ast.AST | None]]:
    """(definition, dotted name, definition around it or None) at any depth; names of private classes and functions go along."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            yield child, prefix + child.name, within
            yield from _definitions(child, f"{prefix}{child.name}.", child)
        elif not isinstance(child, ast.expr):  # which holds none
            yield from _definitions(child, prefix, within)


def _is_setter(definition: Definition) -> bool:
    """Whether it is the setter of a property, whose getter says what the property is."""
    return any(isinstance(decorator, ast.Attribute) and decorator.attr == "setter" for decorator in definition.decorator_list)


@pytest.mark.parametrize("folder", EXEMPT)
def test_everything_public_says_what_it_is_for(folder: str) -> None:
    assert list((REPOSITORY / folder).rglob("*.py"))
    found = undocumented(REPOSITORY / folder, EXEMPT[folder])
    assert not found, f"{len(found)} without a docstring:\n" + "\n".join(found)


def test_planted_omissions_are_found_and_nothing_else(tmp_path: Path) -> None:
    for name, text in PLANTED.items():
        (tmp_path / name).write_text(text.lstrip(), encoding="utf-8")
    assert [entry.replace(":", " ").split()[::2] for entry in undocumented(tmp_path, QT_OVERRIDES)] == [
        ["bare.py", "module"],
        ["faulty.py", "Silent"],
        ["faulty.py", "Silent.paintEvent"],  # overrides nothing: its class has no base
        ["faulty.py", "Silent.method"],  # an empty docstring is none
        ["faulty.py", "Silent.value"],
        ["faulty.py", "_Private.paint"],  # could be anybody's
        ["faulty.py", "paintEvent"],  # a function
        ["faulty.py", "paintEvent.inner.Deep"],
    ]
    with_overrides = [entry.split()[1] for entry in undocumented(tmp_path, ())]
    assert "Described.paintEvent" in with_overrides  # what the exemption is for


def test_every_exempt_name_is_a_method_of_qt_that_the_window_overrides() -> None:
    from PySide6 import QtCore, QtGui, QtWidgets

    names = {name for module in (QtCore, QtGui, QtWidgets) for kind in dir(module) for name in dir(getattr(module, kind))}
    assert names >= QT_OVERRIDES, QT_OVERRIDES - names
    methods = {
        definition.name
        for path in (REPOSITORY / "app").rglob("*.py")
        for definition, _, within in _definitions(ast.parse(path.read_text(encoding="utf-8")), "")
        if isinstance(within, ast.ClassDef) and not ast.get_docstring(definition)
    }
    assert methods >= QT_OVERRIDES, QT_OVERRIDES - methods
