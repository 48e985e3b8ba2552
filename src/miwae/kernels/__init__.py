"""What XLA's CPU backend does slowly, written out. Each file says when it may be deleted."""
