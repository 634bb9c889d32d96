"""Writing what is shown: kinds of export, the dialog, pictures and the share card. `kinds` is shared with the command line."""
