"""Tests of the scripts in packaging/, which are no package: `packaging` is the name of another one."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).parents[2]


def script(name: str) -> ModuleType:
    """The module in packaging/NAME, for example macos/check_bundle.py."""
    path = REPOSITORY / "packaging" / name
    spec = importlib.util.spec_from_file_location(f"packaging_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
