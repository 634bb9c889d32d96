"""Lists, searches, downloads and deletes models on this machine and on the Hub. Loading them is not done here."""
