"""The command line, one module for each command with its options. `entry` is where `draftlight` begins."""
