"""The conversation: transcript, message field, welcome page and the verdict card of a token.

Does not live here: the turns themselves (`app.session`), the order in which tokens are read (`engine.lens.pieces`), and
the contents of the verdict card (`app.verdict`). A further kind of turn is a class in `blocks` that lays itself out and paints
itself.
"""
