import gc
import signal
import threading

import jax
import numpy as np
import pytest

from imputer.tables import make
from miwae._interrupts import keeping_interrupts, raise_interrupt
from miwae._threads import on_device
from miwae.model import Normal, dense_autoencoder
from miwae.training import TrainingSettings, fit

# What Python reports where it drops an exception.
DROPPED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def press_ctrl_c():
    # To this thread, not to the process: there, another thread may take it, and the main thread
    # calls its handler some time later, perhaps when the test is over.
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)


@pytest.fixture
def lost():
    """Ctrl-C in the next garbage collection, whose callbacks cannot raise."""

    def collected(*_):
        if threading.current_thread() is threading.main_thread():
            gc.callbacks.remove(collected)
            press_ctrl_c()

    yield lambda: gc.callbacks.append(collected)
    assert collected not in gc.callbacks, "nothing was collected"


@DROPPED
def test_an_interrupt_that_python_drops_is_raised_by_the_next_look(lost):
    @keeping_interrupts()
    def work():
        lost()
        gc.collect()
        raise_interrupt()
        pytest.fail("nobody has heard it")

    with pytest.raises(KeyboardInterrupt):
        work()


@DROPPED
def test_an_interrupt_that_python_drops_is_raised_at_the_end(lost):
    ended = []

    @keeping_interrupts()
    def work():
        lost()
        gc.collect()
        ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert ended


def test_other_interrupts_are_raised_at_once_and_once():
    @keeping_interrupts()
    def work():
        with keeping_interrupts():
            press_ctrl_c()
        pytest.fail("nobody has heard it")

    with pytest.raises(KeyboardInterrupt):
        work()
    raise_interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_application_stays(monkeypatch):
    pressed = []
    signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        with keeping_interrupts():
            press_ctrl_c()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert pressed


def test_other_threads_leave_signals_alone():
    found = []

    def look():
        with keeping_interrupts():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


@DROPPED
def test_training_hears_it_after_the_next_chunk_of_steps(lost):
    rng = np.random.default_rng(0)
    x, key, steps = rng.normal(size=(40, 2)), jax.random.key(0), []
    model = dense_autoencoder(Normal(2), n_latent=1, n_hidden=4, n_layers=1, key=key)
    settings = TrainingSettings(max_steps=50, evaluate_every=5, patience=None)

    def report(progress):
        steps.append(progress.step)
        if progress.step == 10:
            lost()
            gc.collect()

    with pytest.raises(KeyboardInterrupt):
        fit(model, x, settings=settings, key=key, callback=report)
    assert max(steps) == 10


@DROPPED
@pytest.mark.parametrize("method", ["fit", "transform"])
def test_an_imputer_hears_it(lost, method, monkeypatch):
    frame = np.where(np.eye(12, 4) > 0, np.nan, np.random.default_rng(0).normal(size=(12, 4)))
    imputer = make(n_models=1, max_steps=2).fit(frame)
    before = imputer._fitted

    def interrupted(device):
        lost()
        gc.collect()
        return on_device(device)

    monkeypatch.setattr("miwae._parameters.on_device", interrupted)
    with pytest.raises(KeyboardInterrupt):
        getattr(imputer, method)(frame)
    assert imputer._fitted is before
