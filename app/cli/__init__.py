"""The command line: `entry` is where `draftlight` begins, and each command has a module, some another one for their options.

Does not live here: what a command computes, which the engine does, and the window, which `entry` imports when it is wanted. A
command is a module with its work, and in `entry` a parser and the function that calls it; one that runs a long task on the engine
thread follows it with `follow_task`.
"""
