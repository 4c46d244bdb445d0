"""Mathematics: what layers ask engines to compute. Frozen descriptors with numpy definitions."""
