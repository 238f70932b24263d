"""Charts as SVG: their geometry is computed here, and templates draw it."""
