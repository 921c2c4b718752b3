"""Examples of every verb, shown at the end of its help and in docs/cli.md.

A test parses each of them with the real parser.
"""

from __future__ import annotations

Example = tuple[str, str]  # the command, and what it does
# By verb, or verb and action.
EXAMPLES: dict[str, tuple[Example, ...]] = {
    "serve": (
        ("memoryd serve", "run until Ctrl-C, log to stderr"),
        ("memoryd --data-dir /srv/memory serve", "serve other memories"),
    ),
    "mcp": (
        ("memoryd mcp", "what an MCP client starts"),
        ("memoryd mcp --tools core,manage", "with more tools"),
    ),
    "start": (("memoryd start", "nothing happens if it runs already"),),
    "restart": (("memoryd restart", "after an upgrade of memoryd"),),
    "status": (
        ("memoryd status", "health, counts, model, latencies"),
        ("memoryd status --json | jq .memories", "for a program"),
    ),
    "stop": (
        ("memoryd stop", "running calls are finished first"),
        ("memoryd stop --kill", "if it hangs"),
    ),
    "logs": (
        ("memoryd logs -f", "follow it"),
        ("memoryd logs -n 200 --level warning", "only what went wrong"),
    ),
    "dashboard": (
        ("memoryd dashboard", "see and govern what is remembered"),
        ("memoryd dashboard --no-browser", "print the link, to open it yourself"),
    ),
    "top": (
        ("memoryd top", "q ends it"),
        ("memoryd top --text", "with the memories that were stored and found"),
        ("memoryd top --once --json", "one snapshot for a program"),
    ),
    "store": (
        ('memoryd store "Ann prefers tea" --name "drink of Ann"', "a fact with a name"),
        ("memoryd store - --type context < plan.txt", "a text from stdin, until midnight"),
        ('memoryd store "Close the pool first." --meta kind=gotcha', "with metadata"),
    ),
    "ask": (
        ('memoryd ask "where is the charging dock?"', "an answer with its sources"),
        ("memoryd ask --extract --project acme/web what did we decide", "in stored sentences"),
    ),
    "map": (
        ("memoryd map", "what memory is about, group by group"),
        ("memoryd map --svg map.svg --colour project", "a drawing of all memories"),
    ),
    "search": (
        ('memoryd search "what does Ann drink?"', "by meaning"),
        ("memoryd search deploy --project acme/web --limit 3", "in one project"),
        ("memoryd search tea --explain", "with the reasons of each score"),
        ("memoryd search --type conversation --since 2026-01-31", "the newest, without a query"),
    ),
    "get": (('memoryd get "drink of Ann"', "by name; an id works too"),),
    "list": (
        ("memoryd list --order expiring --limit 20", "what expires next"),
        ("""memoryd list --filter '{"kind": "gotcha"}'""", "by metadata"),
    ),
    "update": (
        ('memoryd update "drink of Ann" --content "Ann prefers green tea"', "a new text"),
        ('memoryd update "drink of Ann" --meta topic=drinks', "one more key"),
        ('memoryd update "drink of Ann" --clear name', "take its name away"),
    ),
    "pin": (('memoryd pin "drink of Ann"', "it never expires"),),
    "unpin": (('memoryd unpin "drink of Ann"', "it expires as its type says"),),
    "edit": (('EDITOR=nano memoryd edit "drink of Ann"', "save and close to store it"),),
    "chain": (('memoryd chain "drink of Ann"', "oldest first"),),
    "review": (
        ("memoryd review", "one after the other, with single keys"),
        ('memoryd review flag dock --reason "It has moved."', "ask for a review"),
        ('memoryd review correct dock --content "The dock is in the hall."', "without keys"),
    ),
    "projects": (
        ("memoryd projects", "all, with what they hold"),
        ("memoryd projects rename acme/web acme/site", "or merge two"),
        ("memoryd projects move dock --to house/robot", "one memory"),
        ("memoryd projects forget acme/old --dry-run", "only say what would go"),
    ),
    "notes": (("memoryd notes", "all of them"),),
    "notes add": (
        ('memoryd notes add "deploy steps" "Build, then ship." --alias rollout', "with an alias"),
    ),
    "notes read": (("memoryd notes read rollout", "by name or alias"),),
    "notes write": (('memoryd notes write "deploy steps" - < steps.md', "a text from stdin"),),
    "notes rename": (
        ('memoryd notes rename "deploy steps" release --keep-alias', "the old name stays valid"),
    ),
    "notes alias": (('memoryd notes alias "deploy steps" ship', "one more name"),),
    "notes unalias": (("memoryd notes unalias ship", "the note stays"),),
    "notes remove": (('memoryd notes remove "deploy steps"', "with its aliases"),),
    "notes list": (("memoryd notes list --kind archive", "what sessions left"),),
    "recall": (
        ('memoryd recall "the deploy failed"', "what would come into a prompt"),
        ("memoryd recall --session s1 --max-tokens 800", "of one session, and shorter"),
    ),
    "brief": (
        ('memoryd brief "add a login page" --file src/auth.ts', "estimates, dead ends, recipes"),
    ),
    "sessions": (("memoryd sessions", "the latest first"),),
    "sessions list": (("memoryd sessions list --identity robot", "of one identity"),),
    "sessions read": (("memoryd sessions read s1 --limit 20", "the last messages"),),
    "sessions rename": (('memoryd sessions rename s1 "Planning the move"', "a title"),),
    "sessions compact": (("memoryd sessions compact s1 --keep 10", "ten messages stay"),),
    "sessions wake": (("memoryd sessions wake --identity robot", "a new session"),),
    "sessions sleep": (("memoryd sessions sleep s1", "a recap and lasting facts are kept"),),
    "chat-log": (
        ('memoryd chat-log "Planning the move"', "by title; an id or its beginning works too"),
        ("memoryd chat-log s1 --limit 20 | less", "the last messages, plain"),
    ),
    "working-memory": (
        ("memoryd working-memory --identity robot", "show it"),
        ('memoryd working-memory --section Goals --set "Find the dock."', "replace a section"),
    ),
    "hook": (
        ("memoryd hook prompt --client claude-code < event.json", "what a client runs"),
        ('memoryd hook --explain "why does the build fail?"', "what this prompt would get"),
    ),
    "pushes": (("memoryd pushes --session s1", "of one session"),),
    "backup": (("memoryd backup /mnt/usb", "with a second copy there"),),
    "restore": (
        ("memoryd restore memoryd-1-2026-01-31.jsonl.gz --replace", "replace what is there"),
    ),
    "rescue": (("memoryd rescue /mnt/usb", "the files of the store are gone"),),
    "purge": (("memoryd purge", "after forgetting something private"),),
    "sweep": (("memoryd sweep", "it also happens by itself"),),
    "mirror": (
        ("memoryd mirror --now", "after editing MEMORY.md"),
        ("memoryd mirror --confirm", "items were removed on purpose"),
    ),
    "forget": (
        ('memoryd forget "drink of Ann"', "by name or id"),
        ("memoryd forget --type conversation --older-than 7d --dry-run", "see what would go"),
        ("memoryd forget --project acme/old --purge", "from the files too"),
    ),
    "export": (
        ("memoryd export memories.jsonl", "all of them"),
        ("memoryd export --format claude-md --output CLAUDE.md --kind decision", "for an agent"),
    ),
    "import": (
        ("memoryd import memories.jsonl", "what is known is skipped"),
        ("memoryd import CLAUDE.md --dry-run", "see what would come"),
        ("memoryd import --chroma ~/old/chroma_db --collection notes", "of another program"),
    ),
    "setup": (
        ("memoryd setup", "prepare the model, check everything, list the clients"),
        ("memoryd setup claude-code --print", "only show the change"),
        ("memoryd setup cursor --project", "only for this folder"),
    ),
    "plugin": (("memoryd plugin", "the folder to add as a marketplace"),),
    "config": (
        ("memoryd config", "what is in force"),
        ("memoryd config --default > config.yaml", "a file to start from"),
    ),
    "service": (
        ("memoryd service install", "start with every login"),
        ("memoryd service status", "is it installed, does it run"),
    ),
    "doctor": (
        ("memoryd doctor", "only look"),
        ("memoryd doctor --fix", "and repair"),
    ),
    "version": (("memoryd version", "of the command and of the daemon"),),
    "completion": (
        ("source <(memoryd completion bash)", "in ~/.bashrc"),
        ("memoryd completion zsh > ~/.zfunc/_memoryd", "with ~/.zfunc in fpath"),
        ("memoryd completion fish > ~/.config/fish/completions/memoryd.fish", "once"),
    ),
    "demo": (
        ("memoryd demo", "300 invented memories in a directory of their own"),
        ("memoryd demo --remove", "delete that directory"),
        ("memoryd demo --memories 100000 --data-dir /tmp/large", "for measuring"),
    ),
}


def epilog(prog: str) -> str:
    """The examples of a verb, from the name of its parser; "" if it has none."""
    found = EXAMPLES.get(prog.partition(" ")[2], ())
    width = max((len(command) for command, _ in found), default=0)
    lines = (f"  {command.ljust(width)}  # {what}" for command, what in found)
    return "\n".join(["examples:", *lines]) if found else ""
