"""Webhook delivery: signed, tried again, and given up when the receiver says so."""
