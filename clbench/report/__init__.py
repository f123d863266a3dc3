"""Tables and figures of records. Nothing here runs a model; everything is read from records."""

from clbench.report.comparison import compare_summary
from clbench.report.figures import frontier_figure, frontier_html
from clbench.report.points import write_points_csv, write_report
from clbench.report.summary import record_summary
from clbench.report.tables import compare_table, record_table

__all__ = [
    "compare_summary",
    "compare_table",
    "frontier_figure",
    "frontier_html",
    "record_summary",
    "record_table",
    "write_points_csv",
    "write_report",
]
