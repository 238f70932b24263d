"""HTTP endpoints of long-running commands."""
