"""Real tables: what their columns hold, and the way to arrays and back."""
