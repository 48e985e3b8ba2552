"""How good imputations are: cells to hide, errors, other methods, and experiments with them."""
