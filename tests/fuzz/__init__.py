"""Coverage-guided fuzzing of everything that reads a file from elsewhere: `python -m tests.fuzz` (`make fuzz`).

`targets.py` says what is fuzzed and what may happen, `mutations.py` how inputs change, `watched.py` what counts as a finding,
`findings/` keeps the inputs that once were one; `test_findings.py` runs those.
"""
