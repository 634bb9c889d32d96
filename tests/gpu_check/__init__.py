"""`make gpu-check`: runs on a GPU everything that has not run there yet, and leaves a report that can be sent back.

`parts` has the checks, each in a process of its own, and `report` writes the report. Metal, CUDA and the CPU back-end run the
same parts; on the CPU the report says that no GPU took part.
"""
