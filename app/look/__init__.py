"""What all views share: colours, themes, style sheet, small widgets, wording and the shape of a command."""
