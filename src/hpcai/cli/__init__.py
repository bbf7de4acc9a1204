"""The command line, on Typer: one thin function for each command, which imports what it needs when it is called."""
