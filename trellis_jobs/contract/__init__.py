"""What services promise: declarations, manifests, and the exact server objects they stand for."""
