"""What became of a token and why, in words and figures that the card, the report and a screen reader share. No Qt."""
