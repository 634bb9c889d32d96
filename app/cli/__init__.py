"""The command line: `entry` is the entry point of `draftlight`. Each command has a module with its options, which imports
quickly, and one that does the work.

The computation is done by the engine. `window_options` imports the window on demand. A command is a line in `entry.COMMANDS` and
its modules; one with a long task on the engine thread follows it with `engine_run`.
"""
