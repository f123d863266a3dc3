"""Training: one loop, driven by an objective. `config` imports no torch; the rest does."""
