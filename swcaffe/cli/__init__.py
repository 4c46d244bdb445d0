"""What the user asked for at the shell: one module a command, loaded when it is called."""
