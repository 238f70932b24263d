"""What requests are answered with, typed: the client's side of every answer, and the contract's."""
