"""Collectors: each reads one kind of fact once, and never judges it.

A probe takes the root folders that it reads (``/proc``, ``/sys``, …) as arguments, returns plain
frozen values, and says of every value that it could not read *why* it could not.
"""
