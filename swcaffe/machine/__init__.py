"""Hardware facts: machines as data, and the events that running a program on one produces."""
