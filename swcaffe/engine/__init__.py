"""Who computes an operator: engines turn operators into plans, once per shape."""
