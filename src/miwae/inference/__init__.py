"""What is computed from a model: weights, bounds, gradients, imputations, likelihoods."""
