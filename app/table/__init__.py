"""Every figure of every round as a table."""
