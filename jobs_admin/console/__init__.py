"""The web console: every screen is made on the server, from the replies of the admin runtime."""
