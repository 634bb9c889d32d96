"""`python -m app` is `draftlight`."""

import sys

from app.cli import main

sys.exit(main())
