"""What jobs weigh, and what happens to the rates when there are many of them."""
