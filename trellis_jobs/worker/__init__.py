"""Doing work: from a delivery to its answer, with leases, cancellation and shutdown."""
