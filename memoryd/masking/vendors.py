"""Credentials found by their format: tokens of vendors, keys, password hashes, URLs.

Our own table instead of a library: detect-secrets 1.5 takes 0.3 s to import and 0.8 s for 100 KB,
reports prose and git hashes as high-entropy strings, and does not find "my password is ...".

Every pattern runs in linear time: its repeats are possessive or bounded, so they do not backtrack.
A text without a rule's hint is not searched at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from memoryd.masking.values import is_name, is_placeholder, is_random, is_random_letters


@dataclass(frozen=True, slots=True)
class Rule:
    """`pattern` is searched if one of `hints` is in the lower-cased text. Its group `secret`, or
    the whole match, is a credential if `holds` returns true."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    holds: Callable[[str], bool]


def _always(text: str) -> bool:
    return True


def _is_key_block(text: str) -> bool:
    """Whether it contains a key, and not only the first and last line of one."""
    return re.search(r"[A-Za-z0-9+/=]{24}", text) is not None


def _is_hub_token(text: str) -> bool:
    """Whether it is random, even if it happens to have no digit; not an identifier after `hf_`."""
    return is_random(text) or is_random_letters(text.removeprefix("hf_"))


def _is_cookie(text: str) -> bool:
    """Whether a header has a long random value: not `theme=dark`, not a visit counter."""
    return any(is_random(value) for value in re.findall(r"=\s?([\w%.~+/-]{16,}+)", text))


def _is_session(text: str) -> bool:
    """Whether it is the value of a session cookie; not a UUID, which may be a mere session id."""
    return is_random(text) and UUID.match(text) is None


def _is_password(text: str) -> bool:
    return not is_placeholder(text) and not is_name(text)


def _rule(
    kind: str, hints: str, pattern: str, holds: Callable[[str], bool] = _always, flags: int = 0
) -> Rule:
    return Rule(kind, tuple(hints.split()), re.compile(pattern, flags), holds)


def _token(
    kind: str, hints: str, pattern: str, holds: Callable[[str], bool] = _always, flags: int = 0
) -> Rule:
    """A rule whose match must not begin in the middle of a word."""
    return _rule(kind, hints, rf"(?<![A-Za-z0-9])(?:{pattern})", holds, flags)


B64 = r"[A-Za-z0-9+/]"
URL64 = r"[A-Za-z0-9_-]"
CRYPT64 = r"[A-Za-z0-9./]"  # the alphabet of crypt(3)
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)

KEY_BLOCKS = (
    _rule(
        "private key",
        "private",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]*+(?:-(?!----)[^-]*+)*+-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        # Cut off before its last line: the lines that are present.
        r"|(?:\s|\\[nr])*+(?:[A-Za-z0-9+/=]{24,}+(?:\s|\\[nr])*+)++)",
        _is_key_block,
    ),
    _rule(
        "private key",
        "private-lines:",
        r"Private-Lines: \d{1,4}\r?\n(?P<secret>(?:[A-Za-z0-9+/=]{4,}+(?:\r?\n|\Z))++)",
    ),
    _token("private key", "age-secret-key-", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}+"),
)

VENDORS = (
    _token("Anthropic key", "sk-ant-", rf"sk-ant-{URL64}{{20,}}+"),
    _token("OpenAI key", "sk-", rf"sk-{URL64}{{20,}}+", is_random),
    _rule(
        "AWS secret key",
        "akia asia",
        rf"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{{16}}\W{{1,8}}(?P<secret>{B64}{{40}})(?![A-Za-z0-9+/])",
    ),
    _token(
        "Discord token", ".", rf"[MNO]{URL64}{{23,27}}\.{URL64}{{6}}\.{URL64}{{27,}}+", is_random
    ),
    _token("AWS access key", "akia asia", r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _token("AWS key", "absk", rf"ABSK{B64}{{80,}}+=*+"),
    _token("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{30,}+"),
    _token("GitHub token", "github_pat_", r"github_pat_\w{40,}+"),
    _token("GitLab token", "gl", r"gl(?:pat|dt|rt|ptt|ft|imt|cbt|oas|soat)-[\w.-]{18,}+"),
    _token("Google key", "aiza", rf"AIza{URL64}{{35,}}+"),
    _token("Google key", "gocspx-", rf"GOCSPX-{URL64}{{20,}}+"),
    _token("Google token", "ya29.", r"ya29\.[\w.-]{20,}+"),
    _token("Google token", "1//0", rf"1//0{URL64}{{30,}}+"),
    _token("Slack token", "xox", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}+"),
    _token("Slack token", "xapp-", r"xapp-\d-[A-Za-z0-9-]{10,}+"),
    _rule("Slack webhook", "hooks.slack.com", r"hooks\.slack\.com/\w+/(?P<secret>[\w/-]{20,}+)"),
    _rule("Discord webhook", "/webhooks/", r"/api/webhooks/(?P<secret>\d{10,}+/[\w-]{20,}+)"),
    _token("Stripe key", "sk_ rk_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}+"),
    _token("webhook secret", "whsec_", r"whsec_[A-Za-z0-9+/=]{20,}+"),
    _token("Twilio key", "sk", r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    _token("SendGrid key", "sg.", rf"SG\.{URL64}{{16,64}}\.{URL64}{{16,}}+"),
    _token("npm token", "npm_", r"npm_[A-Za-z0-9]{30,}+"),
    _token("PyPI token", "pypi-", rf"pypi-AgE{URL64}{{40,}}+"),
    _token("Hugging Face token", "hf_", r"hf_[A-Za-z0-9]{30,}+", _is_hub_token),
    _token("Groq key", "gsk_", r"gsk_[A-Za-z0-9]{30,}+"),
    _token("xAI key", "xai-", r"xai-[A-Za-z0-9]{40,}+"),
    _token("Perplexity key", "pplx-", r"pplx-[A-Za-z0-9]{30,}+"),
    _token("Replicate token", "r8_", r"r8_[A-Za-z0-9]{30,}+"),
    _token("DigitalOcean token", "_v1_", r"do[opr]_v1_[0-9a-f]{40,}+"),
    _token("Databricks token", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9])"),
    _token("Shopify token", "shp", r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{30,}+"),
    _token("Mailgun key", "key-", r"key-[0-9a-f]{32}(?![A-Za-z0-9])"),
    _token("Mailchimp key", "-us", r"[0-9a-f]{32}-us\d{1,2}(?![A-Za-z0-9])"),
    _token("Telegram token", ":aa", rf"\d{{8,10}}:AA{URL64}{{30,}}+"),
    _token("Vault token", "hvs. hvb.", r"hv[sb]\.[\w-]{20,}+"),
    _token("Terraform token", ".atlasv1.", rf"[A-Za-z0-9]{{10,20}}\.atlasv1\.{URL64}{{40,}}+=*+"),
    _token("Docker token", "dckr_", r"dckr_(?:pat|oat)_[\w-]{20,}+"),
    _token("Atlassian token", "atatt", r"ATATT3[\w=-]{50,}+"),
    _token("Linear key", "lin_api_", r"lin_api_[A-Za-z0-9]{30,}+"),
    _token("Notion token", "ntn_", r"ntn_[A-Za-z0-9]{40,}+"),
    _token("Figma token", "figd_", r"figd_[\w-]{30,}+"),
    _token("Grafana token", "glsa_", r"glsa_[A-Za-z0-9]{30,}+_[0-9a-f]{8}"),
    _token("New Relic key", "nrak-", r"NRAK-[A-Z0-9]{27}"),
    _token("Postman key", "pmak-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _token("Supabase token", "sbp_", r"sbp_[0-9a-f]{40}"),
    _token("Tailscale key", "tskey-", r"tskey-[a-z]{2,12}-[\w-]{16,}+"),
    _token("Azure client secret", "q~", r"[\w~.-]{3}\dQ~[\w~.-]{30,40}"),
)

HASHES = (
    _token("password hash", "$2", rf"\$2[abxy]?\$\d\d\${CRYPT64}{{53}}"),
    _token(
        "password hash",
        "$argon2",
        rf"\$argon2(?:id|i|d)\$(?:v=\d{{1,4}}\$)?[mtp=,0-9]{{8,60}}\${B64}{{8,}}+=*+\${B64}{{16,}}+=*+",
    ),
    _token(
        "password hash",
        "$1$ $5$ $6$ $apr1$",
        rf"\$(?:[156]|apr1)\$(?:rounds=\d{{1,9}}\$)?{CRYPT64}{{1,16}}\${CRYPT64}{{22,}}+",
    ),
    _token(
        "password hash",
        "$y$ $gy$ $7$",
        rf"\$(?:g?y|7)\${CRYPT64}{{1,64}}\$(?:{CRYPT64}{{1,86}}\$)?{CRYPT64}{{43}}",
    ),
    _token(
        "password hash",
        "pbkdf2",
        # Formats of Django, passlib, LDAP and Werkzeug: algorithm, rounds, salt, hash.
        r"(?:\$|\{)?pbkdf2[\w:-]{0,20}\}?[$:]?\d{1,9}\$"
        r"[A-Za-z0-9+/.=_-]{1,64}\$[A-Za-z0-9+/.=_-]{20,}+",
        flags=re.I,
    ),
    _token(
        "password hash",
        "scrypt",
        r"\$?scrypt[$:][\w:=,$-]{3,60}\$[A-Za-z0-9+/.=_-]{20,}+",
    ),
)

CARRIERS = (
    _rule(
        "session cookie",
        "cookie",
        r"\bCookie[\"']?\s?:\s?[\"']?"
        r"(?P<secret>[\w.$-]{1,64}=[^\s;\"']{1,4096}(?:;\s?[\w.$-]{1,64}=[^\s;\"']{1,4096})*+)",
        _is_cookie,
        re.I,
    ),
    _rule(
        "session cookie",
        "sessid sessionid .sid",
        r"(?:sessid|sessionid|connect\.sid)[\"']?\s?[=:]\s?[\"']?(?P<secret>[\w%.~+/-]{16,}+=*+)",
        _is_session,
        re.I,
    ),
    _rule(
        "JSON web token",
        "eyj",
        # Signed: three parts, two of them JSON; encrypted: five, of which the second may be empty.
        rf"(?<!{URL64})eyJ{URL64}{{8,}}+(?:\.eyJ{URL64}{{8,}}+\.{URL64}{{8,}}+"
        rf"|\.{URL64}*+(?:\.{URL64}{{8,}}+){{3}})",
    ),
    _rule(
        "Azure key",
        "accountkey sharedaccesskey",
        rf"(?:AccountKey|SharedAccessKey)\s?=\s?(?P<secret>{B64}{{20,}}+=*+)",
        flags=re.I,
    ),
    _rule(
        "signature of a URL",
        "sig= signature=",
        r"[?&](?:sig|X-(?:Amz|Goog)-Signature)=(?P<secret>[A-Za-z0-9%+/_-]{20,}+=*+)",
        flags=re.I,
    ),
    _rule(
        "bearer token",
        "bearer",
        r"\bBearer\s{1,4}(?P<secret>[\w.~+/-]{16,}+=*+)",
        is_random,
        re.I,
    ),
    _rule(
        "credentials",
        "authorization",
        r"\bAuthorization[\"']?\s?[:=]\s?[\"']?(?:Basic|Token|ApiKey)\s{1,4}"
        r"(?P<secret>[\w.~+/-]{8,}+=*+)",
        flags=re.I,
    ),
    _rule(
        "password",
        "://",
        r"(?<=://)[^\s/:\[\]\"'<>]{0,128}:(?P<secret>[^\s/\"'<>]{1,256})@",
        _is_password,
    ),
)

COMMANDS = (
    _rule(
        "password",
        "curl wget http",
        r"\s(?:-u|--user)[ =][\"']?[^\s:\"']{1,64}:(?P<secret>[^\s\"']{1,128})",
        _is_password,
    ),
    _rule(
        "password",
        "sshpass",
        r"\bsshpass\s{1,4}-p\s?[\"']?(?P<secret>[^\s\"']{1,128})",
        _is_password,
    ),
    _rule(
        "password",
        "mysql mariadb",
        r"\b(?:mysql|mariadb)\w{0,10}\s[^\n]{0,80}?\s-p(?P<secret>[^\s\"']{4,128})",
        _is_password,
    ),
    _rule(
        "password",
        "login",
        r"\blogin\s{1,8}\S{1,64}\s{1,8}password\s{1,8}(?P<secret>\S{1,128})",
    ),
)

RULES = KEY_BLOCKS + VENDORS + HASHES + CARRIERS + COMMANDS
