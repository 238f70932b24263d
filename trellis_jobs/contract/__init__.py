"""Contracts of services: declarations, manifests, and the streams and consumers they need."""
