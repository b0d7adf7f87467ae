"""The fault matrix as a table: every fault × {up, swap, down} has its test, or a reason why not."""

from __future__ import annotations

import re
from pathlib import Path

VERBS = ("up", "swap", "down")
QUICK = "test_fault_matrix.py"
FULL = "test_fault_matrix_full.py"
DOWN = "test_fault_matrix_down.py"
KILLED = "test_killed_console.py"

TABLE: dict[tuple[str, str], tuple[str, ...]] = {
    # (fault, verb): the tests "file::function", or one reason why there is nothing to test.
    ("spawn fails", "up"): (f"{QUICK}::test_spawn_fails",),
    ("spawn fails", "swap"): (f"{QUICK}::test_spawn_fails_in_a_swap",),
    ("spawn fails", "down"): ("A stop starts no process.",),
    ("dies at load", "up"): (f"{QUICK}::test_up",),
    ("dies at load", "swap"): (f"{QUICK}::test_swap",),
    ("dies at load", "down"): (f"{QUICK}::test_up", f"{DOWN}::test_stop_of_a_dying_boot"),
    ("OOM at load", "up"): (f"{QUICK}::test_up",),
    ("OOM at load", "swap"): (f"{QUICK}::test_swap",),
    ("OOM at load", "down"): (f"{QUICK}::test_up", f"{DOWN}::test_stop_of_a_dying_boot"),
    ("hang at load", "up"): (f"{FULL}::test_hang_is_told",),
    ("hang at load", "swap"): (f"{FULL}::test_swap_to_a_hang_is_cancelled",),
    ("hang at load", "down"): (f"{QUICK}::test_hang_at_load",),
    ("port taken in between", "up"): (f"{QUICK}::test_port_taken_in_between",),
    ("port taken in between", "swap"): (f"{FULL}::test_swap_robbed_of_its_port",),
    ("port taken in between", "down"): (f"{DOWN}::test_stop_after_a_robbery",),
    ("dies at first token", "up"): (f"{QUICK}::test_up",),
    ("dies at first token", "swap"): (f"{QUICK}::test_swap",),
    ("dies at first token", "down"): (f"{QUICK}::test_up",),
    ("slot exhaustion under load", "up"): (f"{QUICK}::test_death_under_load",),
    ("slot exhaustion under load", "swap"): (
        f"{FULL}::test_swap_from_a_dying_server",
        f"{FULL}::test_death_under_load_after_a_swap",
    ),
    ("slot exhaustion under load", "down"): (f"{DOWN}::test_stop_of_a_dying_server",),
    ("ignores TERM", "up"): (f"{FULL}::test_failed_boot_that_ignores_term",),
    ("ignores TERM", "swap"): (f"{QUICK}::test_ignores_term_in_a_swap",),
    ("ignores TERM", "down"): (f"{QUICK}::test_ignores_term",),
    ("scheduler killed", "up"): (f"{QUICK}::test_scheduler_killed",),
    ("scheduler killed", "swap"): (
        f"{FULL}::test_swap_whose_target_is_killed",
        f"{FULL}::test_swap_whose_old_server_is_killed",
    ),
    ("scheduler killed", "down"): (f"{DOWN}::test_killed_during_the_stop",),
    ("main killed", "up"): (f"{QUICK}::test_main_killed", f"{FULL}::test_main_killed_at_load"),
    ("main killed", "swap"): (
        f"{FULL}::test_swap_whose_target_is_killed",
        f"{FULL}::test_swap_whose_old_server_is_killed",
    ),
    ("main killed", "down"): (f"{DOWN}::test_killed_during_the_stop",),
    ("disk full for logs", "up"): (
        f"{QUICK}::test_disk_full_for_the_log",
        f"{FULL}::test_disk_fills_up",
        f"{FULL}::test_disk_fills_up_at_load",
    ),
    ("disk full for logs", "swap"): (f"{FULL}::test_swap_with_a_full_disk",),
    ("disk full for logs", "down"): (
        f"{QUICK}::test_disk_full_for_the_records",
        f"{FULL}::test_disk_fills_up",
    ),
    ("state dir read-only", "up"): (f"{QUICK}::test_state_folder_read_only",),
    ("state dir read-only", "swap"): (f"{QUICK}::test_state_folder_becomes_read_only",),
    ("state dir read-only", "down"): (f"{QUICK}::test_state_folder_becomes_read_only",),
    ("console killed at each step", "up"): (f"{KILLED}::test_up",),
    ("console killed at each step", "swap"): (
        f"{KILLED}::test_swap",
        f"{KILLED}::test_killed_on_the_way_back",
    ),
    ("console killed at each step", "down"): (f"{KILLED}::test_down",),
}


def test_the_table_has_every_cell() -> None:
    faults = {fault for fault, _ in TABLE}
    assert len(faults) == 13
    assert {(fault, verb) for fault in faults for verb in VERBS} == set(TABLE)
    here = Path(__file__).parent
    for entries in TABLE.values():
        assert entries
        for entry in entries:
            file, colons, function = entry.partition("::")
            if colons:
                assert re.search(rf"def {function}\(", (here / file).read_text()), entry
            else:
                assert entry.endswith(".")
