"""Two to four answers side by side. `comparison` and `sample_tally` hold them without Qt; everything else shows them."""
