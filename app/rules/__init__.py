"""The page that judges the shown answer again: what another rule would have kept and rejected.

The judging is in `engine.lens.rejudge`, its sentences in `engine.lens.rejudge_words`.
"""
