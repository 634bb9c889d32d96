"""Errors in what Python overrides of Qt end neither the window nor a chat that it shows.

PySide reads the arguments of an exception that leaves an override of a virtual method, as `paintEvent` or `sizeHint` are. Before
Python 3.12 an exception that C code raised (a division by zero, an object of Qt's that has gone, a wrong argument) is not an
instance yet at that point, only its text: PySide takes its hash for a pointer, and the process ends with a segmentation fault
(in all versions tried, 6.8.3 to 6.11.3). An exception that has been caught once is an instance.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

METACLASS = ("Shiboken", "ObjectType")


def guard_overrides() -> None:
    """From now on the overrides of each class that derives from one of Qt's catch their exceptions once and raise them again.

    Does nothing where exceptions are instances from the start. Classes that exist already stay as they are.
    """
    if sys.version_info >= (3, 12) or hasattr(builtins.__build_class__, "__wrapped__"):
        return
    build = builtins.__build_class__

    @wraps(build)
    def build_class(*arguments: Any, **keywords: Any) -> Any:
        """A class, its overrides guarded if it is one of Qt's."""
        built = build(*arguments, **keywords)
        if (type(built).__module__, type(built).__name__) == METACLASS:
            _guard(built)
        return built

    builtins.__build_class__ = build_class


def _guard(built: type) -> None:
    for name, method in list(vars(built).items()):
        if isinstance(method, FunctionType) and any(name in vars(base) for base in built.__mro__[1:] if _is_of_qt(base)):
            setattr(built, name, _raising_instances(method))


def _is_of_qt(base: type) -> bool:
    return base.__module__.startswith("PySide6.")


def _raising_instances(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*arguments: Any, **keywords: Any) -> Any:
        """The method; what it raises is an instance."""
        try:
            return method(*arguments, **keywords)
        except BaseException:  # caught: an instance from here on
            raise

    return call
