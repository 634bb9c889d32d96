"""The user interface: the window (PySide6, pyqtgraph) and the command line, with a folder for each part that users would name.

It paints, handles input, words messages and stores the state of views. Decoding and measuring are in `engine`, which these
modules call with plain values and through `engine.runtime.worker`. A new part of the window is a folder of its own whose
`__init__` describes it; only `app.window` connects the parts.
"""

from app.look.overrides import guard_overrides

guard_overrides()  # before any class of the window or of pyqtgraph is defined
