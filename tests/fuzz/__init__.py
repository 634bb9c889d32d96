"""Coverage-guided fuzzing of every reader of foreign files: `python -m tests.fuzz` (`make fuzz`).

`targets.py` has the readers and the allowed errors, `mutations.py` changes inputs, `watched.py` decides what a finding is.
`findings/` has the inputs of former findings, which `test_findings.py` runs.
"""
