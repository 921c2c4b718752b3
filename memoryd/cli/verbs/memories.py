"""The verbs on memories, notes, sessions and projects."""

from __future__ import annotations

import argparse

from memoryd.cli import options as values
from memoryd.cli.verbs.shared import Verbs, add, add_filter, add_json, add_metadata
from memoryd.phases import PHASES


def add_memory_verbs(verbs: Verbs) -> None:
    store = add(verbs, "store", "memories:store", "store a memory")
    store.add_argument("content", metavar="CONTENT", help="the text; - reads it from stdin")
    store.add_argument("--type", metavar="TYPE", help="fact (default), conversation or context")
    store.add_argument("--name", help="a name to get, replace or forget it by")
    store.add_argument("--expires-at", metavar="TIME", help="when to forget it, ISO 8601")
    store.add_argument("--pinned", action="store_true", default=None, help="never expires")
    store.add_argument(
        "--project", metavar="NAME", help="into this one; without it, that of the git checkout"
    )
    store.add_argument("--shared", action="store_true", default=None, help="for all projects")
    store.add_argument("--audience", metavar="WHO", help="who sees it: private, project or team")
    search = add(verbs, "search", "memories:search", "find memories by meaning")
    search.add_argument(
        "query",
        metavar="QUERY",
        nargs="*",
        help="what to look for, in plain words; without it, the newest that match the filter",
    )
    search.add_argument("--limit", type=values.whole, metavar="N", help="how many results at most")
    search.add_argument(
        "--min-score", type=values.number, metavar="SCORE", help="hide worse, 0 to 1"
    )
    search.add_argument(
        "--max-tokens", type=values.whole, metavar="N", help="size of the whole answer"
    )
    search.add_argument(
        "--include-superseded", action="store_true", default=None, help="also what is superseded"
    )
    search.add_argument("--mode", metavar="MODE", help="words: by words alone, and all that match")
    search.add_argument("--explain", action="store_true", default=None, help="show the reasons")
    add_filter(search)
    add_metadata(store)
    store.add_argument("--session", metavar="ID", help="the session it belongs to")
    get = add(verbs, "get", "memories:get", "show one memory")
    get.add_argument("memory", metavar="ID_OR_NAME")
    add_json(store, search, get)


def add_managing_verbs(verbs: Verbs) -> None:
    listed = add(verbs, "list", "manage:list_memories", "list memories, page by page")
    listed.add_argument(
        "--order", metavar="ORDER", help="newest (default), oldest, expiring, most_used, least_sure"
    )
    listed.add_argument("--limit", type=values.whole, metavar="N", help="how many on a page")
    listed.add_argument("--cursor", metavar="TEXT", help="where the next page begins")
    add_filter(listed)
    update = add(verbs, "update", "manage:update", "change a memory: only what is given")
    update.add_argument("memory", metavar="ID_OR_NAME")
    update.add_argument("--content", metavar="TEXT", help="the new text; - reads it from stdin")
    update.add_argument("--type", metavar="TYPE", help="fact, conversation or context")
    update.add_argument("--name", help="a name to get, replace or forget it by")
    update.add_argument("--expires-at", metavar="TIME", help="when to forget it, ISO 8601")
    update.add_argument(
        "--pinned", action=argparse.BooleanOptionalAction, help="never expires, or does again"
    )
    add_metadata(update)
    update.add_argument("--replace-metadata", action="store_true", help="remove all other metadata")
    update.add_argument(
        "--clear", action="append", metavar="FIELD", help="name or expires_at; may be repeated"
    )
    update.add_argument("--audience", metavar="WHO", help="who sees it: private, project or team")
    pin = add(verbs, "pin", "manage:pin", "keep memories for ever")
    unpin = add(verbs, "unpin", "manage:unpin", "let memories expire as their type says")
    for verb in (pin, unpin):
        verb.add_argument("memories", metavar="ID_OR_NAME", nargs="+")
    edit = add(verbs, "edit", "edit:edit", "change the text of a memory in your editor")
    edit.add_argument("memory", metavar="ID_OR_NAME")
    chain = add(
        verbs, "chain", "manage:chain", "show what a memory supersedes and what supersedes it"
    )
    chain.add_argument("memory", metavar="ID_OR_NAME")
    add_json(listed, update, pin, unpin, edit, chain)
    add_review(verbs)


def add_review(verbs: Verbs) -> None:
    review = add(verbs, "review", "review:review", "show what needs a review, or judge a memory")
    review.add_argument(
        "action",
        nargs="?",
        choices=("confirm", "correct", "reject", "flag"),
        metavar="ACTION",
        help="confirm: it is right; correct: --content is right; reject: forget it; flag: review it"
        " later; without one, judge with single keys on a terminal, else a list",
    )
    review.add_argument("memory", metavar="ID_OR_NAME", nargs="?")
    review.add_argument("--content", metavar="TEXT", help="the right text; - reads it from stdin")
    review.add_argument("--reason", metavar="TEXT", help="why it should be reviewed")
    review.add_argument("--list", action="store_true", help="only show them, also on a terminal")
    review.add_argument("--limit", type=values.whole, metavar="N", help="how many on a page")
    review.add_argument("--cursor", metavar="TEXT", help="where the next page begins")
    add_json(review)


def add_note_verbs(verbs: Verbs) -> None:
    notes = add(verbs, "notes", "notes:list_notes", "keep texts under unique names")
    actions = notes.add_subparsers(metavar="ACTION", help="without it: list")
    added = add(actions, "add", "notes:add", "add a note under a new name")
    read = add(actions, "read", "notes:read", "show a note")
    write = add(actions, "write", "notes:write", "replace the content of a note")
    rename = add(actions, "rename", "notes:rename", "give a note another name")
    alias = add(actions, "alias", "notes:alias", "give a note one more name")
    unalias = add(actions, "unalias", "notes:unalias", "take an alias away from its note")
    remove = add(actions, "remove", "notes:remove", "delete a note with its aliases")
    listed = add(actions, "list", "notes:list_notes", "list the notes, oldest first")
    for action in (added, read, write, rename, alias, remove):
        action.add_argument("name", metavar="NAME", help="in any case; an alias means its note")
    for action in (added, write):
        action.add_argument("content", metavar="CONTENT", help="the text; - reads it from stdin")
    added.add_argument("--alias", action="append", metavar="NAME", help="may be repeated")
    added.add_argument("--kind", default="note", help="note (default) or archive")
    add_metadata(added)
    rename.add_argument("new_name", metavar="NEW_NAME")
    rename.add_argument("--keep-alias", action="store_true", help="the old name stays as an alias")
    for action in (alias, unalias):
        action.add_argument("alias", metavar="ALIAS")
    listed.add_argument("--kind", metavar="KIND", help="only note or archive")
    listed.add_argument("--limit", type=values.whole, metavar="N", help="how many at most")
    listed.add_argument("--after", type=values.whole, metavar="SEQ", help="those after this number")
    add_json(notes, added, read, write, rename, alias, unalias, remove, listed)


def add_session_verbs(verbs: Verbs) -> None:
    recall = add(verbs, "recall", "sessions:recall", "show what an agent gets into its prompt")
    recall.add_argument("hint", metavar="HINT", nargs="*", help="what the prompt is about")
    recall.add_argument("--session", metavar="ID", help="with the messages of this session")
    recall.add_argument("--scope", metavar="SCOPE", help="moments of all sessions, or of session")
    recall.add_argument("--phase", metavar="PHASE", help=f"of the work: {', '.join(PHASES)}")
    brief = add(verbs, "brief", "sessions:brief", "show what a planner gets for a task")
    brief.add_argument("task", metavar="TASK", nargs="+", help="what is to be done")
    brief.add_argument("--file", metavar="F", action="append", help="it is about this file")
    sessions = add(verbs, "sessions", "sessions:list_sessions", "list sessions; read or end them")
    actions = sessions.add_subparsers(metavar="ACTION", help="without it: list")
    listed = add(actions, "list", "sessions:list_sessions", "list sessions, the latest first")
    read = add(actions, "read", "sessions:read", "show the messages of a session")
    rename = add(actions, "rename", "sessions:rename", "give a session a title")
    compact = add(actions, "compact", "sessions:compact", "archive the older messages")
    wake = add(actions, "wake", "sessions:wake", "open a session and show its first recall")
    sleep = add(actions, "sleep", "sessions:sleep", "close a session and keep what lasts")
    for action in (read, rename, compact, sleep):
        action.add_argument("session", metavar="ID")
    rename.add_argument("title", metavar="TITLE")
    for action in (listed, read):
        action.add_argument("--limit", type=values.whole, metavar="N", help="how many at most")
    read.add_argument("--before", type=values.whole, metavar="ORDER", help="those before this one")
    compact.add_argument("--keep", type=values.whole, metavar="N", help="how many messages stay")
    wake.add_argument("--session", metavar="ID", help="open this one again")
    for verb in (recall, brief, wake):
        verb.add_argument(
            "--max-tokens", type=values.whole, metavar="N", help="size of the whole answer"
        )
    log = add(verbs, "chat-log", "chat_log:chat_log", "show a session as a conversation")
    log.add_argument("session", metavar="SESSION", help="its id or title, or how one begins")
    log.add_argument("--limit", type=values.count, metavar="N", help="only the last messages")
    working = add(
        verbs, "working-memory", "sessions:working_memory", "show what an agent has in mind"
    )
    working.add_argument("--section", metavar="TITLE", help="only this section")
    working.add_argument("--set", metavar="TEXT", help="replace it; - reads the text from stdin")
    for verb, text in (
        (recall, "whose working memory; without it, that of the session"),
        (listed, "only sessions of this identity"),
        (wake, "who wakes up; without it, default"),
        (working, "whose; without it, default"),
    ):
        verb.add_argument("--identity", metavar="NAME", help=text)
    add_json(recall, brief, sessions, listed, read, rename, compact, wake, sleep, log, working)


def add_project_verbs(verbs: Verbs) -> None:
    projects = add(
        verbs, "projects", "projects:projects", "list projects; rename, merge, move or forget them"
    )
    projects.add_argument(
        "action",
        nargs="?",
        choices=("list", "rename", "merge", "move", "forget"),
        metavar="ACTION",
        help="list (default); rename OLD NEW; merge FROM INTO; move ID...; forget NAME",
    )
    projects.add_argument(
        "names", nargs="*", metavar="NAME", help="projects; for move, memories by id or name"
    )
    projects.add_argument("--to", metavar="NAME", help="move: into this project")
    projects.add_argument("--shared", action="store_true", help="move: out of any project")
    projects.add_argument("--yes", action="store_true", help="forget: do not ask")
    projects.add_argument("--dry-run", action="store_true", help="forget: only say what would be")
    add_json(projects)
