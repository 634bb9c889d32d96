"""`Draftlight.app/Contents/MacOS/Draftlight` is `draftlight`, or a process of its engine (`engine/process/launch.py`)."""

import sys

if sys.argv[1:2] == ["--engine-process"] and sys.argv[2:3] and sys.argv[2].startswith("engine."):
    import importlib

    del sys.argv[1]
    importlib.import_module(sys.argv.pop(1)).main()
else:
    from app.cli.entry import main

    sys.exit(main())
