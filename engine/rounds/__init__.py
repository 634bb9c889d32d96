"""What becomes of a round once it was judged: its record, its analysis, the next draft length, and the text shown of it.

Does not live here: judging (`engine.acceptance`), the loop (`engine.decode`), and telling people of it (`engine.lens`). What
is to be recorded of a round is a field in `engine.values`, filled in `record`, with its reading in `engine.codec`.
"""
