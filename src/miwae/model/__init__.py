"""What is assumed: priors, observation models, posteriors, networks. Arrays only."""
