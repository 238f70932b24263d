"""Schedules on real servers: what they fire, and what becomes of them when processes die."""
