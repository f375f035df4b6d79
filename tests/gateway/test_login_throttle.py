"""Tries to log in are counted per user and per network, in bounded memory."""

from __future__ import annotations

import pytest

from deerflow.gateway.auth.login_throttle import (
    TRIES_FROM_PEER,
    TRIES_OF_USER,
    WINDOW_SECONDS,
    LoginThrottle,
    network_of,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_user_waits_until_the_oldest_try_is_old_enough(clock: Clock) -> None:
    throttle = LoginThrottle(clock=clock)
    for _ in range(TRIES_OF_USER):
        assert throttle.enter("alice", "10.0.0.1") == 0
        clock.now += 1
    assert throttle.enter("alice", "10.0.0.2") == WINDOW_SECONDS - TRIES_OF_USER
    assert throttle.enter("bob", "10.0.0.1") == 0
    clock.now += WINDOW_SECONDS - TRIES_OF_USER
    assert throttle.enter("alice", "10.0.0.2") == 0
    assert throttle.enter("alice", "10.0.0.2") == 1


def test_refused_tries_do_not_lengthen_the_wait(clock: Clock) -> None:
    throttle = LoginThrottle(clock=clock)
    waits = [throttle.enter("alice", None) for _ in range(TRIES_OF_USER + 20)]
    assert waits[TRIES_OF_USER:] == [WINDOW_SECONDS] * 20


def test_one_network_may_not_try_many_users(clock: Clock) -> None:
    throttle = LoginThrottle(clock=clock)
    waits = [throttle.enter(f"user-{n}", f"2001:db8::{n:x}") for n in range(TRIES_FROM_PEER + 1)]
    assert [wait > 0 for wait in waits] == [False] * TRIES_FROM_PEER + [True]
    assert throttle.enter("user-0", "2001:db8:0:1::1") == 0


def test_success_is_forgiven_and_gives_no_further_tries_for_others(clock: Clock) -> None:
    throttle = LoginThrottle(clock=clock)
    for n in range(TRIES_FROM_PEER - 1):
        throttle.enter(f"user-{n}", "10.0.0.1")
    for _ in range(5):
        assert throttle.enter("alice", "10.0.0.1") == 0
        throttle.forgive("alice", "10.0.0.1")
    assert throttle.enter("bob", "10.0.0.1") == 0
    assert throttle.enter("carol", "10.0.0.1") > 0


def test_memory_is_bounded_and_forgets_the_longest_unused(clock: Clock) -> None:
    throttle = LoginThrottle(clock=clock, max_keys=10)
    for _ in range(TRIES_OF_USER):
        throttle.enter("alice", None)
    for n in range(9):
        throttle.enter(f"user-{n}", f"10.0.0.{n}")
    assert throttle.enter("alice", "10.1.0.1") > 0
    for n in range(50):
        throttle.enter(f"user-{n}", f"10.0.1.{n}")
    assert throttle.enter("alice", "10.1.0.1") == 0


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
        (None, ""),
    ],
)
def test_addresses_count_as_one_person_can_have_them(peer: str | None, network: str) -> None:
    assert network_of(peer) == network
