"""What a round becomes once it was judged: its record, its analysis, the next draft length, and the text shown of it."""
