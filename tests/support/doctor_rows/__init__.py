"""Rows of the judges' tests, by subject."""

from support.doctor_rows.disk import ROWS as DISK
from support.doctor_rows.driver import ROWS as DRIVER
from support.doctor_rows.engine import ROWS as ENGINE
from support.doctor_rows.gpu import ROWS as GPU
from support.doctor_rows.host import ROWS as HOST

ROWS = [*DRIVER, *GPU, *HOST, *DISK, *ENGINE]

__all__ = ["ROWS"]
