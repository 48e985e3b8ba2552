"""Tables that ship with the package.

`penguins.csv`: size measurements of 344 penguins near Palmer Station, Antarctica, 2007-2009, with
19 cells missing. Collected by Dr. Kristen Gorman and the Palmer Station Long Term Ecological
Research Program; published as palmerpenguins by Horst, Hill & Gorman (2020) under CC0.
"""
