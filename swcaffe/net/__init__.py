"""How blobs and layers are wired: filtering, splits, sharing, backward analysis, weights."""
