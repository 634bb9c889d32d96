"""Training of drafters: text a target wrote for itself, its soft labels, and the draft model cut from its layers.

Nothing here runs while the app decodes. Each module is a command (``python -m engine.training.cut --help``) and a few
functions on arrays; what a training writes is loaded by `engine.models`.
"""
