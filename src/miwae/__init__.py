"""Deep latent variable models trained on incomplete data, and the imputations they give."""
