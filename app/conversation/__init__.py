"""The conversation as it is read and written: transcript, message field, welcome page, and what is shown of a token.

Does not live here: the turns themselves (`app.session`), the order in which tokens are read (`engine.lens.pieces`), and what the
verdict card says (`app.verdict`). A further kind of turn is a class in `blocks` that lays itself out and paints itself.
"""
