"""`memoryd doctor`: find what is wrong, say it, and with --fix repair what can be repaired."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from memoryd.cli.daemon import ask
from memoryd.cli.findings import CHECKS, Finding, Patient
from memoryd.cli.output import BOLD, clean, note, paint, say, say_json
from memoryd.cli.target import setting_flags, settings, target
from memoryd.errors import ConfigError, MemorydError, WrongDaemon
from memoryd.launch.target import Target


def doctor(options: argparse.Namespace) -> int:
    """Tell every fault; exit code 1 if one remains."""
    found, fixed = _examine(options), []
    if options.fix:
        fixed = [finding for finding in found if finding.repair and _repaired(finding)]
        found = _examine(options) if fixed else found
    if options.json:
        repaired = [_facts(finding) for finding in fixed]
        say_json({"healthy": not found, "faults": [_facts(f) for f in found], "fixed": repaired})
    else:
        _tell(found, fixed, options.fix)
    return 1 if found else 0


def _examine(options: argparse.Namespace) -> list[Finding]:
    from memoryd.config import load

    found = []
    try:
        config = settings(options)
    except ConfigError as exc:
        found.append(Finding(exc.code, exc.message, exc.hint or "Correct it in an editor."))
        told = {"MEMORYD_DATA_DIR": os.environ.get("MEMORYD_DATA_DIR", "")}
        config = load(
            Path(os.devnull), told, setting_flags(options)
        )  # the rest is examined all the same
    status = None
    try:
        meant = target(options)
        status = asyncio.run(ask(options))
    except WrongDaemon as exc:
        found.append(Finding(exc.code, exc.message, exc.hint))
    except ConfigError:  # told above
        meant = Target({"--data-dir": str(config.memory.path)})
    except MemorydError:
        pass
    patient = Patient(config, meant.place, status)
    return found + [finding for check in CHECKS for finding in check(patient)]


def _repaired(finding: Finding) -> bool:
    assert finding.repair is not None
    try:
        finding.repair()
    except (OSError, MemorydError) as exc:
        note(f"{finding.code} could not be repaired: {exc}")
        return False
    return True


def _facts(finding: Finding) -> dict[str, object]:
    hint = finding.hint.removeprefix("Run: ")
    fixable = finding.repair is not None
    return {"code": finding.code, "message": finding.message, "try": hint, "fixable": fixable}


def _tell(found: list[Finding], fixed: list[Finding], fixing: bool) -> None:
    for finding in fixed:
        say(f"Fixed {finding.code}: {clean(finding.message)}")
    for finding in found:
        say(f"{paint(finding.code, BOLD)}: {clean(finding.message)}")
        if finding.hint:
            say(f"  Try: {clean(finding.hint.removeprefix('Run: '))}")
    if not found:
        say("No faults found.")
    elif not fixing and (count := sum(finding.repair is not None for finding in found)):
        say(f"memoryd doctor --fix repairs {count} of {len(found)}.")
