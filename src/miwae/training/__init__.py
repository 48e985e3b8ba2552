"""How a model is fitted: steps, runs, held-out cells, files."""
