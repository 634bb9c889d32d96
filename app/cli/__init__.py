"""The command line: `entry` is the entry point of `draftlight`. Each command is a module with its options, which imports quickly;
where the work needs slow imports (`bench`, `chat`, `chats`), that is in a module of its own, and the options are in `…_options`.

The computation is done by the engine. `window` imports the window on demand. A command is a line in `entry.COMMANDS` and its
module; one with a long task on the engine thread follows it with `engine_run`.
"""
