"""The forms in which answers are exported, by the names that the command line and the settings use. Light to import."""

from __future__ import annotations

from typing import Literal, get_args

Form = Literal["json", "csv", "parquet", "html", "svg"]
FORMS: tuple[Form, ...] = get_args(Form)
