"""Generate a typed Python module from a manifest, for users of a service without its code.

Not datamodel-code-generator: it drops constraints such as `not` and `patternProperties` without
a warning, where this refuses the manifest (ADR 11).
"""
