"""What the commands share: groups of options, the screen, the log."""
