"""What people see: the window (PySide6, pyqtgraph) and the command line.

Lives here: painting, input, wording. Does not live here: anything that computes; that is `engine`, which these modules reach
through plain values and `engine.worker`.
"""
