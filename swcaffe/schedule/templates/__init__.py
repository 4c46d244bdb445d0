"""One file for each family of schedules."""
