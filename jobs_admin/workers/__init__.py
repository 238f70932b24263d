"""The worker processes of all services: what is known about them, and directives to them."""
