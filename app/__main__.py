"""Runs the command `draftlight` as `python -m app`."""

import sys

from app.cli.entry import main

sys.exit(main())
