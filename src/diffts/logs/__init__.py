"""Logs of past interactions: read from files, tables and databases, and counted up.

A log has one row a decision: a task (a user, a campaign), an arm, a reward. :func:`read_log` turns
it into the number, the mean and the spread of the rewards of each task and arm.
"""

from diffts.logs.columns import Columns
from diffts.logs.facts import Facts
from diffts.logs.log import Log
from diffts.logs.read import read_log

__all__ = ["Columns", "Facts", "Log", "read_log"]
