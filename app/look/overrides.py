"""Prevents exceptions in Python overrides of Qt methods from crashing the program.

PySide reads the arguments of an exception that leaves an override of a virtual method, such as `paintEvent` or `sizeHint`.
Before Python 3.12, an exception raised by C code (a division by zero, a deleted Qt object, a wrong argument) is at that point
not an instance yet, only its text. PySide takes its hash for a pointer, and the process ends with a segmentation fault (in all
versions tried, 6.8.3 to 6.11.3). An exception that was caught once is an instance.
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
    """Makes the overrides of every new class that derives from one of Qt's catch their exceptions once and raise them again.

    Does nothing on versions of Python where exceptions are always instances. Existing classes do not change.
    """
    if sys.version_info >= (3, 12) or hasattr(builtins.__build_class__, "__wrapped__"):
        return
    build = builtins.__build_class__

    @wraps(build)
    def build_class(*arguments: Any, **keywords: Any) -> Any:
        """Builds a class, and guards its overrides if it derives from one of Qt's."""
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
        """Calls the method, and raises its exceptions as instances."""
        try:
            return method(*arguments, **keywords)
        except BaseException:  # an instance once it was caught
            raise

    return call
