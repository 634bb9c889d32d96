"""The older draft model that is cut from the built-in target: its training (`cut`) and the soft labels for it (`teacher`).

Each is a command of its own, `python -m engine.training.trimmed.cut`; the app runs neither. The model that comes of it is
`engine.models.trimmed_draft`.
"""
