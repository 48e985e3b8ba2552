import json

import numpy as np

from miwae.evaluation import Experiment, in_sample, key_of, peers
from miwae.evaluation._protocol import KEY
from store import Store


def experiment(**changes):
    x = np.random.default_rng(0).normal(size=(400, 4))
    return Experiment("noise", x, np.zeros(4, dtype=bool))._replace(**changes)


def mean(x, categorical, seed):
    return peers.complete("mean", x, categorical, seed)


def broken(x, categorical, seed):
    raise ArithmeticError("it diverged")


def test_a_run_resumes_where_it_stopped(tmp_path):
    store = Store(tmp_path / "records.jsonl")
    calls = []

    def counting(x, categorical, seed):
        calls.append(seed)
        return mean(x, categorical, seed)

    methods = {"counting": counting, "broken": broken}
    assert store.records() == []
    for record in in_sample(experiment(), methods, [0], store.done()):
        store.append(record)
    # A second run is interrupted while it writes.
    (cut,) = in_sample(experiment(), {"counting": counting}, [1])
    with store.path.open("a") as file:
        file.write(json.dumps(cut)[:40])
    assert len(store.records()) == 2
    calls.clear()
    tried = list(in_sample(experiment(), methods, [0, 1], store.done()))
    for record in tried:
        store.append(record)
    assert len(calls) == 1  # mask 1 only
    assert [(r["method"], r["mask"]) for r in tried] == [
        ("broken", 0),  # failures get another chance
        ("counting", 1),
        ("broken", 1),
    ]
    assert len(store.records()) == 4
    same = next(r for r in store.records() if key_of(r) == key_of(cut))
    assert same["mse"] == cut["mse"]


def test_attempts_with_other_settings_are_others(tmp_path):
    store = Store(tmp_path / "records.jsonl")
    variants = [{}, {"rate": 0.3}, {"mechanism": "mcar"}, {"seed": 1}, {"standardise": "observed"}]
    for changes in variants:
        for record in in_sample(experiment(**changes), {"mean": mean}, [0], store.done()):
            store.append(record)
    assert len(store.records()) == len(variants)
    assert set(KEY) <= set(store.records()[0])
