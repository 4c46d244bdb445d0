"""Mesh fidelity's compiled leaves: each acts on all CPEs of a core group at once."""
