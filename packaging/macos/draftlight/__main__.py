"""`Draftlight.app/Contents/MacOS/Draftlight` is `draftlight`, or the process of its engine (`engine/process/launch.py`)."""

import sys

if sys.argv[1:] == ["--engine-process"]:
    from engine.process.child import main as engine_process

    engine_process()
else:
    from app.cli.entry import main

    sys.exit(main())
