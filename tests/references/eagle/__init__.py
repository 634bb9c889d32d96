"""References of EAGLE heads, and the scripts that make and compare them."""
