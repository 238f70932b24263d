"""What the screens of a job show, computed from its log."""
