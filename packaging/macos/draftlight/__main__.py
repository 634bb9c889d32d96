"""Entry point of `Draftlight.app/Contents/MacOS/Draftlight`. By its arguments, it is the command `draftlight`, an engine process
(`engine/runtime/process/launch.py`), or multiprocessing's resource tracker, which tqdm starts with options of Python."""

import re
import sys

tracker = re.fullmatch(r"from multiprocessing\.resource_tracker import main;\s*main\((\d+)\)", sys.argv[-1])

if "-c" in sys.argv and tracker:
    from multiprocessing.resource_tracker import main as track

    track(int(tracker[1]))
elif sys.argv[1:2] == ["--engine-process"] and sys.argv[2:3] and sys.argv[2].startswith("engine."):
    import importlib

    del sys.argv[1]
    importlib.import_module(sys.argv.pop(1)).main()
else:
    from app.cli.entry import main

    sys.exit(main())
