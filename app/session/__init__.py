"""The chat's state without widgets: settings, turns and answers, the token cursor, and the link to the engine thread.

`chat` carries out what the user does; `preferences` has the settings in force and the presets, `model_loader` loads the models,
`chat_recorder` writes to the store. A setting is a field of `settings.Settings` with its check. Each engine event is a case in
`Session.apply`. Files whose docstring says "No Qt" use no signals.
"""
