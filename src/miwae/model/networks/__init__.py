"""Encoders and decoders: any map on the last axis will do.

An encoder takes inputs (B, E), followed by the indicators of what was seen if its `Amortizer` has
`indicator=True`, and returns the parameters of a posterior family (B, Q). A decoder takes latent
samples (K, B, L) and returns the parameters of an observation model (K, B, P).
"""
