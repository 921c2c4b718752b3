"""A robot with a memory: it looks around, stores what it sees, asks, and talks about it.

Run it with `python robot.py --rounds 5`. The daemon is found or started. Restart it meanwhile
(`memoryd stop`) and the robot goes on where it was.
"""
# ruff: noqa: T201 (a program that talks)

from __future__ import annotations

import argparse
import time

from memoryd.client import DaemonLost, DaemonUnavailable, SyncClient

THINGS = ("a red cup", "the charging dock", "a toolbox", "an open window")
ROOMS = ("kitchen", "hall", "workshop")
TRIES = 5


def look(number: int) -> tuple[str, str]:
    """What the camera would tell: a thing and the room it is in."""
    return THINGS[number % len(THINGS)], ROOMS[number % len(ROOMS)]


def live_one_round(memory: SyncClient, number: int) -> str:
    """Observe, store, ask, talk. What it recalls."""
    thing, room = look(number)
    # Doing this twice does no harm: the same fact is kept once, a name has one memory.
    memory.store(f"On look {number} {thing} was in the {room}.", metadata={"room": room})
    memory.store(f"I am in the {room}.", "context", name="my position")
    page = memory.search(f"Where is {thing}?", limit=3, metadata={"room": room}, min_score=0.0)
    recalled = page["results"][0]["content"] if page["results"] else "nothing"
    memory.add_turn("user", f"Where is {thing}?", speaker="Ada")
    memory.add_turn("assistant", recalled, speaker="robot")
    return recalled


def live(memory: SyncClient, rounds: int, pause: float) -> None:
    for number in range(1, rounds + 1):
        for _ in range(TRIES):
            try:
                print(f"{number}: {live_one_round(memory, number)}", flush=True)
                break
            except (DaemonLost, DaemonUnavailable) as exc:
                print(f"{number}: once more, for: {exc.message}", flush=True)
        time.sleep(pause)
    window = memory.context_window(max_turns=2)
    print(f"We last said: {' / '.join(said['content'] for said in window['messages'])}")


if __name__ == "__main__":
    words = argparse.ArgumentParser(description="A robot with a memory.")
    words.add_argument("--rounds", type=int, default=10)
    words.add_argument("--pause", type=float, default=1.0, help="seconds between two rounds")
    given = words.parse_args()
    # A session id of one's own: after a restart of the robot it is the same conversation.
    with SyncClient(start=True, session_id="robot-1") as shared:
        live(shared, given.rounds, given.pause)
