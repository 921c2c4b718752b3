"""Texts to compare encoders with: fixed ones of every awkward kind, and any number of others."""

from __future__ import annotations

import random

GOLDEN = [
    "coffee",
    "The user prefers dark roast coffee in the morning.",
    "Where did we leave the spare keys for the workshop?",
    "  \n\t ",
    ".",
    "Anna's flight lands at 18:45 on 3 March 2026; gate B12.",
    "I'm allergic to peanuts, tree nuts & shellfish -- please don't forget!!!",
    "def add(a: int, b: int) -> int:\n    return a + b\n\nassert add(2, 2) == 4\n",
    "SELECT id, name FROM users WHERE created_at > '2024-01-01' ORDER BY name LIMIT 10;",
    '{"mcpServers": {"memory": {"command": "memoryd", "args": ["mcp"]}}}',
    "https://example.org/a/very/long/path?with=query&and=more#fragment",
    "Café Müller, façade, naïve, Zürich, smörgåsbord, Ærøskøbing",
    "我喜欢在早上喝咖啡。明天的会议改到下午三点。",
    "ロボットアームを左に三十度動かしてください。",
    "오늘 저녁에 김치찌개를 먹었다.",
    "Завтра в девять утра встреча комитета по бюджету.",
    "اجتماع الميزانية غدا في الساعة التاسعة صباحا",
    "बैठक कल सुबह नौ बजे होगी",
    "🎉🚀 Launch day! 👩‍👩‍👧‍👦 family emoji and flags 🇩🇪🇯🇵",
    "a\u0301 combining, zero\u200bwidth, soft\u00adhyphen, \ufeffBOM and \u202eRTL\u202c marks",
    "supercalifragilisticexpialidocious pneumonoultramicroscopicsilicovolcanoconiosis",
    "x" * 120 + " is one unreadable word",
    " ".join(f"Step {n}: turn the valve a quarter and wait for the light." for n in range(1, 25)),
    " ".join(f"Turn {n}: the robot moved to shelf {n % 7} and took box {n}." for n in range(1, 80)),
]

SUBJECTS = "the user,Anna,my robot,the daemon,our team,Dr Okafor,the cat,nobody".split(",")
VERBS = "prefers,forgot,moved,restarted,bought,will meet,never liked,asked about".split(",")
OBJECTS = (
    "dark roast coffee,the blue notebook,port 8443,the budget report,a flight to Osaka,"
    "room 12,the left gripper,peanut butter,commit 4f2a9c,Beethoven's seventh"
).split(",")
ENDINGS = "yesterday.,on Friday at 9:30!,again?,(see the notes),— finally.,in Zürich.".split(",")


def varied(count: int, most_sentences: int, seed: int = 7) -> list[str]:
    """Texts of one to `most_sentences` sentences; the same for the same arguments."""
    chance = random.Random(seed)
    parts = (SUBJECTS, VERBS, OBJECTS, ENDINGS)
    return [
        " ".join(
            " ".join(chance.choice(part) for part in parts)
            for _ in range(chance.randint(1, most_sentences))
        )
        for _ in range(count)
    ]
