"""Everything that talks to the NATS server. No other package imports nats-py."""
