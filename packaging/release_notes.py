"""Prints a version's section of CHANGELOG.md as release notes: python packaging/release_notes.py v0.2.0

Fails unless the version is that of pyproject.toml and its section is not empty.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def section(changelog: str, version: str) -> str:
    """Returns the text below a version's heading ("## 0.1.0", or "## 0.1.0, 2026-12-01"); empty if there is none."""
    match = re.search(rf"^## {re.escape(version)}(?:[ ,(][^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return match.group(1).strip() if match else ""


def main() -> int:
    """Prints the notes; returns 1, with the reason, if there are none or the tag does not match."""
    tag = sys.argv[1]
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if tag != f"v{version}":
        print(f"The tag {tag} is not the version in pyproject.toml, v{version}.", file=sys.stderr)
        return 1
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    notes = section(changelog, version)
    if not notes:
        print(f"CHANGELOG.md has no section for {version}.", file=sys.stderr)
        return 1
    if section(changelog, "Unreleased"):
        print(f"CHANGELOG.md has changes under Unreleased. Put them under {version}.", file=sys.stderr)
        return 1
    print(notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
