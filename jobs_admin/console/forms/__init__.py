"""Forms that are made from JSON Schemas, and payloads that are made from forms."""
