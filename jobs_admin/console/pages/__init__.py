"""One file per screen: it reads from the admin runtime, and fills its template."""
