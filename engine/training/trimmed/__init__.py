"""The older draft model that is cut from the built-in target: its training and the soft labels for it."""
