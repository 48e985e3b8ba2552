"""Where a command begins: signals are handled before anything that takes time is imported."""

from miwae.cli._signals import end_on_signals


def main() -> None:
    """Run the command line."""
    end_on_signals()
    from miwae.cli._app import run

    run()
