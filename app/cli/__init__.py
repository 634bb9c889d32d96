"""The command line: `entry` is where `draftlight` begins. Each command has a module with its options, which is quick to import,
and one that does the work.

Does not live here: what a command computes, which the engine does, and the window, which `window_options` imports when it is
wanted. A command is a line in `entry.COMMANDS` and the modules; one that runs a long task on the engine thread follows it with
`engine_run`.
"""
