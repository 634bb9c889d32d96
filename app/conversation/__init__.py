"""The conversation as it is read and written: transcript, message field, welcome page, and what points at tokens."""
