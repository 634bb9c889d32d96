"""What is asked of the engine besides one answer, and what comes of it, as frozen values. No MLX.

A request for one answer is `engine.values.answers.Request`; who serves requests is in `engine.serving` and in the room of each
task. A further long task is a module here, a `LongTask` in a room of its own, the event that ends it in
`engine.values.events.TaskEnd`, and a case of `commands.Task` and of `engine.runtime.worker`. All that an engine can be sent is in
`commands`.
"""
