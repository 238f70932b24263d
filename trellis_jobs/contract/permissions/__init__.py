"""The NATS permissions of services, operators and the admin runtime."""
