"""Secrets are masked, all else is kept. Credentials are put together here, none is written out."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.masking.mask import Masked, mask, mask_metadata
from tests.costs import costs_its_length

ALPHANUMERIC = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def run(length: int, alphabet: str = ALPHANUMERIC) -> str:
    """Characters in an order that no word has."""
    return "".join(alphabet[(i * i * 7 + i * 11 + 3) % len(alphabet)] for i in range(length))


JWT = ".".join(["eyJ" + run(20), "eyJ" + run(60), run(43)])
PEM = "-----BEGIN {0}-----\n" + "\n".join([run(64)] * 5) + "\n-----END {0}-----"
PRIVATE = "PRIVATE" + " KEY"
PUBLIC = PEM.format("PUBLIC" + " KEY")

TOKENS = [
    ("OpenAI key", "sk" + "-" + run(48)),
    ("OpenAI key", "sk" + "-proj-" + run(70) + "_-" + run(20)),
    ("OpenAI key", "sk" + "-or-v1-" + run(64, HEX)),
    ("Anthropic key", "sk" + "-ant-api03-" + run(80) + "-AA"),
    ("AWS access key", "AKIA" + run(16, string.ascii_uppercase + "234567")),
    ("AWS access key", "ASIA" + run(16, string.ascii_uppercase + "234567")),
    ("AWS key", "ABSK" + run(120)),
    ("GitHub token", "ghp" + "_" + run(36)),
    ("GitHub token", "ghs" + "_" + run(36)),
    ("GitHub token", "github" + "_pat_" + run(22) + "_" + run(59)),
    ("GitLab token", "glpat" + "-" + run(20)),
    ("Google key", "AIza" + run(35)),
    ("Google key", "GOCSPX" + "-" + run(28)),
    ("Google token", "ya29" + "." + run(60)),
    ("Slack token", "xoxb" + "-" + "-".join(["1" * 12, "2" * 12, run(24)])),
    ("Slack token", "xapp" + "-1-A01234-" + "3" * 12 + "-" + run(40, HEX)),
    ("Stripe key", "sk" + "_live_" + run(24)),
    ("Stripe key", "rk" + "_test_" + run(24)),
    ("webhook secret", "whsec" + "_" + run(32)),
    ("Twilio key", "SK" + run(32, HEX)),
    ("SendGrid key", "SG" + "." + run(22) + "." + run(43)),
    ("npm token", "npm" + "_" + run(36)),
    ("PyPI token", "pypi" + "-AgEIcHlwaS5vcmc" + run(80)),
    ("Hugging Face token", "hf" + "_" + run(34)),
    ("Hugging Face token", "hf" + "_" + run(34, string.ascii_letters)),
    ("Hugging Face token", "hf" + "_" + run(34, string.ascii_lowercase)),
    ("Terraform token", run(14) + ".atlasv1" + "." + run(67)),
    ("password hash", "$2b" + "$12$" + run(53)),
    ("password hash", "$2y" + "$10$" + run(53)),
    ("password hash", "$argon2id" + "$v=19$m=65536,t=3,p=4$" + run(22) + "$" + run(43)),
    ("password hash", "$6" + "$" + run(16) + "$" + run(86)),
    ("password hash", "$6" + "$rounds=656000$" + run(16) + "$" + run(86)),
    ("password hash", "$5" + "$" + run(8) + "$" + run(43)),
    ("password hash", "$1" + "$" + run(8) + "$" + run(22)),
    ("password hash", "$y" + "$j9T$" + run(22) + "$" + run(43)),
    ("password hash", "pbkdf2" + "_sha256$870000$" + run(22) + "$" + run(43) + "="),
    ("password hash", "$pbkdf2" + "-sha256$29000$" + run(22) + "$" + run(43)),
    ("password hash", "pbkdf2" + ":sha256:600000$" + run(16) + "$" + run(64, HEX)),
    ("password hash", "scrypt" + ":32768:8:1$" + run(16) + "$" + run(128, HEX)),
    ("Groq key", "gsk" + "_" + run(52)),
    ("xAI key", "xai" + "-" + run(80)),
    ("Perplexity key", "pplx" + "-" + run(48)),
    ("Replicate token", "r8" + "_" + run(37)),
    ("DigitalOcean token", "dop" + "_v1_" + run(64, HEX)),
    ("Databricks token", "dapi" + run(32, HEX)),
    ("Shopify token", "shpat" + "_" + run(32, HEX)),
    ("Mailgun key", "key" + "-" + run(32, HEX)),
    ("Mailchimp key", run(32, HEX) + "-us12"),
    ("Telegram token", "123456789" + ":AA" + run(33)),
    ("Vault token", "hvs" + "." + run(24)),
    ("Docker token", "dckr" + "_pat_" + run(27)),
    ("Atlassian token", "ATATT3" + "x" + run(180)),
    ("Linear key", "lin" + "_api_" + run(40)),
    ("Notion token", "ntn" + "_" + run(46)),
    ("Figma token", "figd" + "_" + run(40)),
    ("Grafana token", "glsa" + "_" + run(32) + "_" + run(8, HEX)),
    ("New Relic key", "NRAK" + "-" + run(27, string.ascii_uppercase + "0123456789")),
    ("Postman key", "PMAK" + "-" + run(24, HEX) + "-" + run(34, HEX)),
    ("Supabase token", "sbp" + "_" + run(40, HEX)),
    ("Tailscale key", "tskey" + "-auth-" + run(17) + "-" + run(32)),
    ("Azure client secret", "abc8" + "Q~" + run(34)),
    ("JSON web token", JWT),
    ("JSON web token", ".".join(["eyJ" + run(30), "", run(16), run(50), run(22)])),
    ("private key", PEM.format("RSA " + PRIVATE)),
    ("private key", PEM.format("OPENSSH " + PRIVATE)),
    ("private key", PEM.format("PGP " + PRIVATE + " BLOCK")),
    ("private key", PEM.format(PRIVATE).replace("\n", "\\n")),
    ("private key", "AGE-SECRET" + "-KEY-1" + run(58, string.ascii_uppercase)),
]


@pytest.mark.parametrize(("kind", "token"), TOKENS)
@pytest.mark.parametrize("around", ["{}", "use {} please.", 'say("{}")', "a={}\nb", "<{}>, ok"])
def test_a_token_is_masked_and_nothing_else(kind: str, token: str, around: str) -> None:
    assert mask(around.format(token)) == Masked(around.format(f"[secret removed: {kind}]"), (kind,))


IN_PLACE = [  # the secret is in braces
    ("bearer token", "Authorization: Bearer {" + run(40) + "}"),
    ("bearer token", "curl -H 'authorization: bearer {" + run(20) + "." + run(9) + "}' x"),
    ("credentials", "Authorization: Basic {" + run(20) + "==}"),
    ("password", "postgres://app:{" + "s3" + "cr3t}@db.local:5432/prod"),
    ("password", "redis://:{" + run(9) + "}@cache"),
    ("password", "https://ann@example.org:{" + "p@ss!x" + "}@example.org/x"),
    ("Azure key", "DefaultEndpointsProtocol=https;AccountKey={" + run(86) + "==};Suffix=x"),
    ("Azure key", "Endpoint=sb://x/;SharedAccessKey={" + run(43) + "=}"),
    ("signature of a URL", "https://x.blob/y?sv=1&sig={" + run(40) + "%3D}&se=2"),
    ("Slack webhook", "https://hooks.slack.com/services/{T01/B02/" + run(24) + "}"),
    ("private key", "-----BEGIN " + PRIVATE + "-----\n" + run(64) + "\n" + run(64)),
    ("key", "aws_secret_access_key = {" + run(40) + "}"),
    ("key", 'const cfg = {{"apiKey": "{' + run(24) + '}", "id": 5}}'),
    ("key", "x-api-key: {" + run(32, HEX) + "}"),
    ("key", "AZURE_STORAGE_KEY={" + run(40) + "==}"),
    ("session cookie", "Cookie: {theme=dark; sessionid=" + run(32) + "}"),
    ("session cookie", "curl -H 'cookie: {sid=" + run(26) + "}' https://example.org"),
    ("session cookie", "Set-Cookie: {id=" + run(40, HEX) + "; Path=/}; HttpOnly"),
    ("session cookie", "the browser sent sessionid={" + run(32) + "}; then it failed"),
    ("session cookie", "PHPSESSID={" + run(26) + "}"),
    ("session cookie", "JSESSIONID={" + run(32, HEX.upper()) + ".node1} "),
    ("session cookie", "connect.sid={s%3A" + run(32) + "." + run(43) + "}"),
    ("key", "AES_KEY={" + run(64, HEX) + "}"),
    ("key", "hmac key: {" + run(64, HEX) + "}"),
    ("key", "the key is {" + run(32, HEX) + "}, do not lose it"),
    ("key", "wallet_key = '{0x" + run(64, HEX) + "}'"),
    ("key", "secret_key_base: {" + run(128, HEX) + "}"),
    ("key", "hmacKey={" + run(64, HEX.upper()) + "}"),
    ("secret", "client_secret={" + run(24) + "}&grant_type=x"),
    ("token", "GITHUB_TOKEN={" + run(40, HEX) + "} make"),
    ("token", "the access token is {" + run(20) + "}, valid for an hour"),
    ("password", "my password is {" + "hunter" + "2}"),
    ("password", "My password is {" + "Sword" + "fish}."),
    ("password", "Password: {" + "sword" + "fish}\nUser: ann"),
    ("password", "**Password:** {" + "Blue-Horse-" + "77!}"),
    ("password", "the wifi password at home is {" + "Tulip99" + "!}"),
    ("password", "the password for example.org is {" + "hunter" + "2}, I think"),
    ("password", "The password is now: {" + "Tulip77" + "}"),
    ("password", "she changed the password to {" + "Tulip-19" + "87} today"),
    ("password", "the passwords are {" + "hunter" + "2}"),
    ("password", "DB_PASSWORD='{" + "let" + "mein}'"),
    ("password", "PGPASSWORD={" + "abcd" + "1234} psql"),
    ("password", "?user=bob&password={" + "abc" + "123}&x=1"),
    ("password", "Server=db;Password={" + "abc;12" + "3};Database=x"),
    ("password", '{{"password": "{' + "correct horse battery" + '}"}}'),
    ("password", '{{\\"password\\": \\"{' + "hunter" + '2}\\"}}'),
    ("password", "Passwort: {" + "Tulpe" + "99}"),
    ("password", "Das Passwort ist {" + "Tulpe" + "99!}."),
    ("password", "das Passwort lautet {" + "Tulpe" + "99} und gilt bis Mai"),
    ("password", "Das Passwort lautet {" + "Tulpen" + "feld}."),
    ("password", "das Kennwort für den Router ist {" + "Tulpe" + "99}"),
    ("password", "das WLAN-Passwort im Büro ist jetzt {" + "Tulpe" + "99}"),
    ("password", "Das Passwort vom Server ist „{" + "Tulpen" + "feld}“."),
    ("password", "die Passwörter sind {" + "Tulpe" + "99}"),
    ("password", "le mot de passe est {" + "Soleil" + "77!}"),
    ("password", "Le mot de passe du wifi est {" + "Soleil" + "77}, je crois"),
    ("password", "le mot de passe de l'imprimante est « {" + "Soleil" + "leve} »"),
    ("password", "mon mot de passe est désormais {" + "Soleil" + "77}"),
    ("password", "la contraseña es {" + "Perro" + "77!}"),
    ("password", "La contraseña del wifi es {" + "Perro" + "77}."),
    ("password", "la contrasena para el servidor es {" + "Perro" + "77}"),
    ("password", "la password è {" + "Gatto" + "77!}"),
    ("password", "La password del router è {" + "Gatto" + "77}."),
    ("password", "la password e' {" + "Gatto" + "77}"),
    ("password", "la password dell'ufficio è ora {" + "Gatto" + "77}"),
    ("password", "Пароль: {" + "Тюльпан" + "99}"),
    ("password", "İ made it up: password={" + "Tulip" + "99}"),
    ("passphrase", "passphrase: {" + "correct horse battery staple" + "}"),
    ("passphrase", "seed phrase is {" + " ".join(["zebra"] * 12) + "}."),
    ("PIN", "My card PIN is {" + "48" + "21}."),
]


@pytest.mark.parametrize(("kind", "text"), IN_PLACE)
def test_what_is_around_a_secret_is_kept(kind: str, text: str) -> None:
    if "{{" in text:
        text = text.replace("{{", "\0").replace("}}", "\1")
    before, _, rest = text.partition("{") if "{" in text else ("", "", text + "}")
    secret, _, after = rest.rpartition("}")
    plain = (before + secret + after).replace("\0", "{").replace("\1", "}")
    wanted = f"{before}[secret removed: {kind}]{after}".replace("\0", "{").replace("\1", "}")
    assert mask(plain) == Masked(wanted, (kind,))


FOREIGN_PROSE = [
    "Das Passwort ist abgelaufen.",
    "Das Passwort ist Pflicht.",
    "Mein Passwort ist leider nicht mehr gültig",
    "Das Passwort ist im Tresor, das Kennwort für den Router ist im Handbuch.",
    "Das Passwort ist 12-stellig und 8-12 Zeichen sind erlaubt; das Passwort ist 8-12 Zeichen lang",
    "Das Passwort ist seit 31.12.2025 ungültig; das Passwort war 31.12.2025 fällig",
    "Das Passwort ist 100%ig sicher",
    "Passwort: erforderlich",
    "Das Passwort ist E-Mail/Kundennummer",
    "Das Passwort lautet anders.",
    "Die Passwörter sind unterschiedlich.",
    "Der Schlüssel ist unter der Matte, das Geheimnis ist Geduld.",
    "Le mot de passe est incorrect.",
    "Le mot de passe est obligatoire",
    "Le mot de passe du wifi est écrit derrière la porte.",
    "Mon mot de passe est celui d'hier, qu'il faut changer",
    "mot de passe : obligatoire",
    "Le mot de passe est l\u2019anniversaire de Paul",
    "La contraseña es demasiado corta.",
    "La contraseña es obligatoria.",
    "La contraseña de Ana es larga; la contraseña del banco es secreta.",
    "La clave es practicar. La clave del éxito es la paciencia.",
    "contraseña: obligatoria",
    "La password è scaduta.",
    "La password di Marco è cambiata ieri.",
    "la password e' sbagliata",
    "La password è nella cassaforte dell'ufficio",
    "password: obbligatoria",
]

HARMLESS = [
    "commit " + run(40, HEX),
    "sha256:" + run(64, HEX),
    "'" + run(40, HEX) + "'",
    "id 123e4567-e89b-12d3-a456-426614174000",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUA" + run(80) + "==",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + run(43) + " ann@host",
    PUBLIC,
    "#ff00aa and #0F0; ISBN 978-3-16-148410-0; +43 1 234567",
    "/usr/local/lib/python3.11/site-packages/memoryd/engine/memories.py",
    "an_identifier_that_is_really_very_long_and_has_no_end_in_sight_v2",
    "sk-fading-circle-container-spinner-large and sk-SK, the Slovak locale",
    "pk" + "_live_" + run(24) + " is a publishable key",
    "the password policy requires 12 characters",
    "token count: 512",
    "max_tokens=4096, tokens: 512",
    "secret santa",
    "secret ingredient: cardamom",
    "The secret is out. The secret to good bread is time.",
    "the key to success is practice; primary key: user_id",
    "turkey: 12345abcde and monkey=banana42split",
    "password: reset it tomorrow at the front desk",
    "password: ask Ben",
    "password: required",
    "Password: minimum 8 chars",
    "password: 16 characters, rotated quarterly",
    "passwords: rotate every 90 days",
    "password rotated: 2026-01-31; password: 2026-01-31",
    "my password is expired",
    "The password is written on a note under the keyboard",
    "the wifi password is on the fridge",
    "I lost the password to server01",
    "password is 12 characters long",
    "Her password manager is Bitwarden. Password: 1Password",
    "the API key is missing",
    "API key: get it from the dashboard",
    "credentials: see the wiki",
    "The token is valid for 3600 seconds",
    "Token of appreciation: a mug",
    "tokenizer: bert-base-uncased-v2",
    "private key: ~/.ssh/id_ed25519",
    "PWD=/home/ann/project",
    "recovery phrase is kept in the bank safe by her sister and nobody else knows",
    "PIN 4 of the connector is ground; PIN: see letter",
    "Bearer of bad news: the 2nd shipment failed",
    "The bearer authentication-mechanism is described there",
    'api_key=os.environ["X"]',
    "password = getpass.getpass()",
    "password = input('Enter password: ')",
    "password=settings.DB_PASSWORD, token=token",
    "def f(password: str, token: Optional[str] = None) -> None:",
    "class A:\n    password: SecretStr\n    api_key: string | null",
    '"password": "Must be at least 12 characters"',
    "password == confirm_password",
    "password_hash=" + run(60),
    "password=${TOKEN}",
    "password: $DB_PASSWORD",
    "password: {{ vault_password }}",
    "password: ${{ secrets.DB }}",
    "api_key=<your-key>",
    "<your-key>",
    "api_key: your-api-key-1234567890",
    "password=****",
    "password: xxxxxxxx",
    "password: [hidden]",
    "password=$(pass show db)",
    "token: vault:secret/data/app#token1234",
    "https://user:password@example.org/ and https://user:${PASS}@example.org/",
    "https://example.org:8443/@scope/package and git@example.org:org/repo.git",
    "User access token to generate from https://example.org/settings/token1234abcd.",
    "mysql -u root -pPASSWORD asks for nothing, mysql -p -h db does; sshpass -p $PASS ssh host",
    'def token(self):\n    """Returns12345678 a token."""',
    "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 and hf_" + "X" * 34,
    "hf_hub_download_with_retries_and_progress(repo_id)",
    "Cookie: chocolate=2 eggs and flour. Cookie: theme=dark; lang=de; visits=12345678901234567890",
    "Set-Cookie: theme=light; Path=/; Max-Age=31536000; SameSite=Lax",
    "the cookie banner sets sessionid on login; sessionid=abc and sessionid: <value>",
    "session_id=123e4567-e89b-12d3-a456-426614174000 and session_id=s-0011223344556677",
    "sessionid=123e4567-e89b-12d3-a456-426614174000",
    "bcrypt hashes begin with $2b$12$ and argon2 ones with $argon2id$v=19$m=65536,t=3,p=4$",
    "awk '{print $1$2}' and it costs $6 or $5 or $1",
    "pbkdf2 with 600000 rounds; pbkdf2_sha256 is the default of Django",
    "cache key: " + run(32, HEX) + ", primary key = " + run(32, HEX),
    "the key of the commit: " + run(40, HEX) + "; git key " + run(64, HEX),
    "public_key=" + run(64, HEX) + " idempotency-key: " + run(32, HEX),
    "key: 123e4567-e89b-12d3-a456-426614174000; turkey: " + run(32, HEX),
    "key = 12345678901234567890123456789012",
    "md5 " + run(32, HEX) + ", etag: " + run(32, HEX) + ", tree " + run(40, HEX),
    "Terraform Cloud tokens contain .atlasv1. in the middle",
    *FOREIGN_PROSE,
    "-----BEGIN " + PRIVATE + "----- begins it and -----END " + PRIVATE + "----- ends it",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_is_left_alone(text: str) -> None:
    assert mask(text) == Masked(text)


@pytest.mark.parametrize(
    "text",
    [
        "note: ghp_" + run(10) + "\u200b" + run(26) + " end",
        "ghp_" + run(10) + "\u2060" + run(26),
        "password\uff1d" + "Hunter2Hunter",
        "machine example.org login bob " + "password " + run(12),
        "curl -u admin:" + "S3cret" + "Pw9 https://example.org",
        "sshpass -p " + "S3cret" + "Pw9 ssh host",
        "mysql -u root -p" + "S3cret" + "Pw9 db",
        "mot de passe : " + "Soleil" + "77!",
        "la contrase\u00f1a es " + "Perro" + "77!",
        "\u30d1\u30b9\u30ef\u30fc\u30c9\u306f " + "Himitsu" + "77",
        "\u5bc6\u7801\u662f " + "Mima" + "7788",
        "AKIA" + run(16, HEX.upper()) + " / " + run(40),
    ],
)
def test_a_secret_is_found_however_it_is_written(text: str) -> None:
    found = mask(text)
    assert "[secret removed: " in found.text
    for secret in ("Pw9", "Hunter2Hunter", "77", run(12), run(40), run(26)):
        assert secret not in found.text


def test_text_in_wide_letters_without_a_secret_is_left_as_it_is() -> None:
    assert mask("\uff34ext in wide\u200b letters") == Masked("\uff34ext in wide\u200b letters")


def test_several_secrets_are_named_once_each() -> None:
    text = f"password={run(9)} and {TOKENS[7][1]}; password: {run(10)}"
    found = mask(text)
    assert found.kinds == ("GitHub token", "password")
    assert found.text.count("[secret removed: password]") == 2
    assert run(9) not in found.text


PIECES = [
    *(token for _, token in TOKENS),
    *HARMLESS,
    *(text.replace("{", "").replace("}", "") for _, text in IN_PLACE),
    *[
        "password",
        "=",
        ": ",
        " is ",
        "[secret removed: token]",
        '"',
        "'",
        "\n",
        " ",
        "://",
        "@",
        "b",
    ],
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    once = mask(text)
    assert mask(once.text) == Masked(once.text)


@settings(deadline=None)
@given(st.text())
def test_any_text_can_be_masked(text: str) -> None:
    found = mask(text)
    assert bool(found.kinds) == (found.text != text)


HOSTILE = [
    *["password=", "password for ", "password ", "password:\n", 'password="', "password=a&"],
    *["password=keykeykey", "PIN for x ", "passphrase is ab cd ef gh ", "set the password to "],
    *["eyJ-", "eyJabcdefghij.", "sk-", "ghp_", "SG.aaaaaaaaaaaaaaaa.", "http://a:b", "a1Q~"],
    *["-----BEGIN " + PRIVATE + "-----", "-----BEGIN " + PRIVATE + "-----" + "A" * 30, "-"],
    *["Cookie: a=", "cookie: a=b;", "sessionid=", "$2b$12$", "$6$a$", "pbkdf2_sha256$1$a$", "hf_"],
    *["$argon2id$v=19$", "scrypt$", "a.atlasv1.", "$y$", "das Passwort für ", "mot de passe de l'"],
    *["la password è ", "das Passwort ist „", "key: 0123456789abcdef", "AES_KEY="],
    *["AccountKey=aaa", "bearer aaaaaaaaaaaaaaaaaaaa ", "/", "[", "hooks.slack.com/a/", "x" * 9],
]


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.slow
def test_hostile_text_costs_no_more_than_its_length(piece: str) -> None:
    assert costs_its_length(mask, piece)


@pytest.mark.parametrize("piece", ["key", "a.", "a-", "/a"])
def test_a_long_value_costs_no_more_than_its_length(piece: str) -> None:
    assert costs_its_length(lambda text: mask(f"password={text}!"), piece)


@pytest.mark.parametrize(
    ("metadata", "wanted", "kinds"),
    [
        ({}, {}, ()),
        ({"n": 5, "password": 7, "ok": None}, {"n": 5, "password": 7, "ok": None}, ()),
        ({"password": "required"}, {"password": "required"}, ()),
        ({"password": "sword" + "fish"}, {"password": "[secret removed: password]"}, ("password",)),
        ({"a": {"apiKey": run(20)}}, {"a": {"apiKey": "[secret removed: key]"}}, ("key",)),
        ({"tokens": [run(20), 5]}, {"tokens": ["[secret removed: token]", 5]}, ("token",)),
        ({"x": [[TOKENS[7][1]]]}, {"x": [["[secret removed: GitHub token]"]]}, ("GitHub token",)),
        ({"note": "pwd=" + run(9)}, {"note": "pwd=[secret removed: password]"}, ("password",)),
        ({"commit": run(40, HEX)}, {"commit": run(40, HEX)}, ()),
    ],
)
def test_metadata_is_masked_at_any_depth(
    metadata: dict[str, Any], wanted: dict[str, Any], kinds: tuple[str, ...]
) -> None:
    assert mask_metadata(metadata) == (wanted, kinds)


def test_secrets_in_keys_are_masked_and_no_value_is_lost() -> None:
    tokens = ["ghp" + "_" + run(36), "ghp" + "_" + run(37)]
    made, kinds = mask_metadata({tokens[0]: 1, tokens[1]: 2})
    assert made == {"[secret removed: GitHub token]": 1, "[secret removed: GitHub token] 2": 2}
    assert kinds == ("GitHub token",)
