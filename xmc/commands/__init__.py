"""One module a command: its arguments, the settings it reads, and the one function that it calls."""
