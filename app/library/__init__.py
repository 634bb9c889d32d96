"""Models on this machine and on the Hub: listed, searched, downloaded, deleted. Not here: loading them."""
