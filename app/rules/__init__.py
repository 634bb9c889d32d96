"""The page that judges the shown answer again: what another rule would have kept and rejected.

Does not live here: the judging (`engine.lens.rejudge`) and its sentences (`engine.lens.rejudge_words`).
"""
