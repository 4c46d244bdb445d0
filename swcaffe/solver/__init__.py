"""How weights change: the iteration loop, learning-rate policies, update rules, snapshots."""
