from __future__ import annotations

import itertools

import pytest

from qwen_tui.services.state import ALIVE, ENDED, STEPS, IllegalStepError, ServerState, check_step


def test_every_state_has_its_row_and_every_state_is_alive_or_ended() -> None:
    assert set(STEPS) == set(ServerState)
    assert set(ServerState) == ALIVE | ENDED
    assert not ALIVE & ENDED


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # A server that got its TERM never serves again.
        (ServerState.STOPPING, ServerState.RUNNING),
        (ServerState.STOPPING, ServerState.STARTING),
        # Running is reached through a boot only.
        (ServerState.STOPPED, ServerState.RUNNING),
        (ServerState.FATAL, ServerState.RUNNING),
        (ServerState.EXITED, ServerState.RUNNING),
        (ServerState.RUNNING, ServerState.STARTING),
        # A death is not rewritten as an orderly exit.
        (ServerState.FATAL, ServerState.EXITED),
        (ServerState.STOPPED, ServerState.FATAL),
    ],
)
def test_illegal_steps_are_refused(before: ServerState, after: ServerState) -> None:
    with pytest.raises(IllegalStepError):
        check_step(before, after)


def test_staying_is_legal_and_listed_steps_are() -> None:
    for state in ServerState:
        assert check_step(state, state) is state
    for before, after in itertools.product(ServerState, ServerState):
        if after in STEPS[before]:
            assert check_step(before, after) is after


def test_every_living_state_can_end() -> None:
    for state in ALIVE:
        assert ServerState.STOPPED in STEPS[state]
