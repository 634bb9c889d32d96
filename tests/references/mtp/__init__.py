"""References of MTP heads, and the scripts that make and compare them."""
