"""The same model and training step in PyTorch, as a competent user would write it.

Encoder and decoder of three tanh layers, product of Student-t distributions as posterior and as
observation model, MIWAE bound with standard gradients, clipping and Adam; eager, or with the loss and
its backward pass compiled by `torch.compile`.

Bailey's formula takes the place of `StudentT.rsample` in both: it is faster than the gamma sampler, and
unlike it compiles without a break in the graph. Adam is the fused one, the fastest of three tried.
"""

import math
import os

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.distributions import StudentT  # pyright: ignore[reportMissingImports]
from torch.nn.functional import softplus  # pyright: ignore[reportMissingImports]

__all__ = ["TorchPeer"]


def dense(widths):
    layers = []
    for a, b in zip(widths[:-1], widths[1:], strict=True):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Miwae(nn.Module):
    """Maps a batch to its loss."""

    def __init__(self, n_features, n_latent, n_hidden, n_layers, n_samples):
        super().__init__()
        hidden = [n_hidden] * n_layers
        self.n_samples, self.n_latent, self.n_features = n_samples, n_latent, n_features
        self.encoder = dense([n_features, *hidden, 3 * n_latent])
        self.decoder = dense([n_latent, *hidden, 3 * n_features])

    def forward(self, x, observed):
        n_rows, shape = len(x), (self.n_samples, len(x), self.n_latent)
        x = torch.where(observed, x, 0.0)
        loc, raw, tail = self.encoder(x).chunk(3, dim=-1)
        scale, df = 1e-3 + softplus(raw), 2.1 + softplus(tail)
        u, v = torch.rand(2, *shape) + 2.0**-25
        eps = torch.sqrt(df * torch.expm1(-2 / df * torch.log(u))) * torch.cos(2 * math.pi * v)
        z = loc + scale * eps
        out = self.decoder(z.reshape(-1, self.n_latent))
        out = out.reshape(self.n_samples, n_rows, 3 * self.n_features)
        mean, raw, tail = out.chunk(3, dim=-1)
        likelihood = StudentT(2.1 + softplus(tail), mean, 0.1 + softplus(raw), validate_args=False)
        log_x = torch.where(observed, likelihood.log_prob(x), 0.0).sum(-1)
        log_z = (-0.5 * (z * z + math.log(2 * math.pi))).sum(-1)
        log_q = StudentT(df, loc, scale, validate_args=False).log_prob(z).sum(-1)
        log_w = log_x + log_z - log_q
        return -(torch.logsumexp(log_w, 0) - math.log(self.n_samples)).mean()


class TorchPeer:
    """Training steps on shuffled minibatches."""

    def __init__(
        self,
        x,
        observed,
        *,
        n_latent=10,
        n_hidden=128,
        n_layers=3,
        n_samples=20,
        batch_size=64,
        compiled,
        seed=0,
    ):
        torch.set_num_threads(os.cpu_count() or 1)
        torch.manual_seed(seed)
        self.x, self.observed = torch.from_numpy(x), torch.from_numpy(observed)
        self.model = Miwae(x.shape[1], n_latent, n_hidden, n_layers, n_samples)
        self.loss = (
            torch.compile(self.model, fullgraph=True, dynamic=False) if compiled else self.model
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True)
        self.batch_size = batch_size
        self.order, self.place = torch.randperm(len(x)), 0

    def _rows(self):
        if self.place + self.batch_size > len(self.order):
            self.order, self.place = torch.randperm(len(self.order)), 0
        self.place += self.batch_size
        return self.order[self.place - self.batch_size : self.place]

    def run(self, n_steps):
        """Take steps, and return the mean loss."""
        total = np.zeros(())
        for _ in range(n_steps):
            rows = self._rows()
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.loss(self.x[rows], self.observed[rows])
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.optimizer.step()
            total = total + loss.detach().numpy()
        return float(total / n_steps)
