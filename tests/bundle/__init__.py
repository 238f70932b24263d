"""Tests of bundles: a job in a file."""
