"""One page that shows what was imputed, how well, and how to do it again.

    report_on(fitted, columns) -> Report: .html, .data, .save("report.html")

The page is a single file without references to any other: it opens offline and from disk.
"""

from miwae.report._page import Report, report_on

__all__ = ["Report", "report_on"]
