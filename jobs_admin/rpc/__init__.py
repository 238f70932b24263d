"""The Jobs.* requests: what operators ask, and what they are answered."""
