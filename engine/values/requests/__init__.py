"""Requests to the engine other than for one answer, and their results, as frozen values. No MLX.

A request for one answer is `engine.values.answers.Request`; requests are served by `engine.serving` and by the package of each
task. A new long task needs a module here, a `LongTask` in a package of its own, the event that ends it in
`engine.values.events.TaskEnd`, and a case of `commands.Task` and of `engine.runtime.worker`. `commands` has everything that can
be sent to an engine.
"""
