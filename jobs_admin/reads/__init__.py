"""Questions to the projection: SELECTs and nothing else."""
