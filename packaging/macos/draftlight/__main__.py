"""`Draftlight.app/Contents/MacOS/Draftlight` is `draftlight`."""

import sys

from app.cli.entry import main

sys.exit(main())
