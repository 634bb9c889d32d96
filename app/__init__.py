"""What people see: the window (PySide6, pyqtgraph) and the command line, a folder for each thing a person would name.

Lives here: painting, input, wording, and what a view has to remember. Does not live here: anything that decodes or measures; that
is `engine`, which these modules reach through plain values and `engine.runtime.worker`. A new part of the window is a folder of
its own whose `__init__` says what it holds; `app.window` alone puts parts together.
"""

from app.look.overrides import guard_overrides

guard_overrides()  # before any class of the window, or of pyqtgraph, exists
