"""What the command line says, without a process of its own."""

import pyarrow as pa

from miwae import MIWAEImputer
from miwae.telling import Speaker


def test_what_a_column_is_taken_for_is_not_told_again_at_the_end(capsys):
    lists = pa.array([[1], None, [3]], pa.list_(pa.int64()))
    imputer = MIWAEImputer().fit(pa.table({"l": lists, "k": [5.0, None, 5.0]}))
    Speaker(as_json=False, quiet=False, to_stdout=True).fitted(imputer, "model")
    told = capsys.readouterr().err
    assert "list<" in imputer.events_[0]
    assert "list<" not in told
    assert "column 'l' is not modelled: its 1 missing cells stay missing" in told
