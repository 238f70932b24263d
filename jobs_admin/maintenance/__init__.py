"""What looks after jobs by itself: deadlines, exhausted deliveries, lost work, keys left behind."""
