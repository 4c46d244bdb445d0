"""What a program costs: exact counts from its text, and seconds from the machine's rates."""
