"""`make gpu-check`: what has never run on a GPU runs once, and leaves a report that can be sent back.

`parts` has what is checked, each part in a process of its own, `report` what is made of it. Metal, CUDA and the CPU back-end run
the same parts; on the last one the report says that no GPU took part.
"""
