"""What the two pipelines of one CPE do with a list of instructions: order, cycles, values."""
