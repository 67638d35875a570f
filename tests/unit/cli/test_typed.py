"""What is typed: inputs, ids, pairs, places, principals, and command lines that make no sense."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from cyclopts import CycloptsError

from amends import Refused
from amends.cli import acting, apps, inputs, main
from amends.cli.options import Options
from amends.cli.usage import usage_error
from amends.contracts.errors import Misuse
from amends.contracts.parsing import INPUT_LIMITS
from tests.unit.cli import shop
from tests.unit.cli.shell import SHOP, Shell

SECRET: Final = "hunter2"
OURS: Final = "amends.cli.commands."
HEAVY: Final = frozenset(
    "amends.app amends.runtime amends.stores amends.wiring amends.cli.session apsw cryptography "
    "jsonschema_rs msgspec".split()
)


# ── files ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ("tx list --store sqlite:///{long}", "store.not_found"),
        ("doctor --store sqlite:///{long}", "store.not_found"),
        ("verify bundle --key {long}", "key.not_given"),
        ("verify bundle --keys {long}", "key.not_given"),
        ("verify bundle --keys .", "key.not_given"),
        ("verify bundle --checkpoint {long}", "checkpoint.no_file"),
        ("verify {long}", "verify.no_bundle"),
        ("keys add {long}", "key.not_given"),
        ("keys export --out {long}", "backup.target_unwritable"),
        ("export txn_done --out {long}", "backup.target_unwritable"),
        ("export txn_done --out none/bundle", "backup.target_unwritable"),
        ("backup {long}", "backup.target_unwritable"),
        ("backup none/backup", "backup.target_unwritable"),
        ("restore {long} --yes", "restore.no_backup"),
        ("restore backup --yes --store sqlite:///{long}", "backup.target_unwritable"),
        ("policy check {long}", "policy.file_unreadable"),
        ("tx list --principals {long}", "cli.principals_invalid"),
        ("tx list --app {long}.toml", "connector.file_unreadable"),
    ],
)
def test_a_file_that_no_folder_can_hold_is_a_mistake_of_the_caller(
    shell: Shell, told: str, code: str
) -> None:
    assert shell.done("txn_done").code == 0
    assert shell("backup", "backup").code == 0
    Path("bundle").touch()
    before = sorted(Path.cwd().iterdir())
    assert shell.json(*told.replace("{long}", "n" * 300).split()).error == code
    assert sorted(Path.cwd().iterdir()) == before


# ── inputs ───────────────────────────────────────────────────────────────────────────────────────


def test_an_input_comes_from_the_command_line_a_file_or_a_pipe(shell: Shell) -> None:
    Path("order.json").write_text('{"amount": 7}')
    shell.pipes(b'{"amount": 8}')
    told = ('{"amount": 6}', "@order.json", "-")
    amounts = [
        shell.json("execute", "payments.charge", "--yes", "--input", one).data["output"]["charge"]
        for one in told
    ]
    assert amounts == ["ch-6", "ch-7", "ch-8"]


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ('{"amount": 1, "amount": 2}', "input.duplicate_key"),
        ('{"amount": NaN}', "input.not_a_number"),
        (f'{{"{SECRET}"', "input.malformed"),
        ("@no-such-file", "cli.input_unreadable"),
        ("@.", "cli.input_unreadable"),
        ("@\0", "cli.input_unreadable"),
        ("--json", "input.malformed"),
    ],
)
def test_an_input_that_is_none_is_refused_with_nothing_of_it_repeated(
    shell: Shell, told: str, code: str
) -> None:
    said = shell.json("plan", "payments.charge", "--input", told)
    assert said.error == code
    assert SECRET not in said.out + said.err
    assert not shell.database.exists()


def test_a_file_without_end_is_read_no_further_than_an_input_may_be_long() -> None:
    with pytest.raises(Refused) as refused:
        inputs.read_input("@/dev/zero")
    assert refused.value.code == "input.too_large"
    assert refused.value.details["limit"] == INPUT_LIMITS.max_bytes


@pytest.mark.parametrize("told", ["novalue", "=value", "a=1 a=2"])
def test_a_pair_is_a_key_and_a_value_and_each_key_once(told: str) -> None:
    with pytest.raises(Misuse) as refused:
        inputs.pairs(told.split(), "--metadata")
    assert refused.value.code == "cli.pair_invalid"
    assert "value" not in str(refused.value)


def test_a_pair_may_have_an_empty_value_and_further_equals_signs() -> None:
    assert inputs.pairs(["a=", "b=c=d"], "--metadata") == {"a": "", "b": "c=d"}


# ── command lines ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.case("SEC-02")
@pytest.mark.parametrize(
    "tokens",
    [
        [SECRET],
        [f"--{SECRET}"],
        ["plan", f"--password={SECRET}"],
        ["plan", "a", SECRET],
        ["tx", "list", "--limit", SECRET],
        ["tx", "list", "--status", SECRET],
        ["tx", SECRET],
        ["settle", "t1", SECRET, "--reference", "r", "--note", "n"],
        ["tx", "list", "--limit", "1", "--limit", "2"],
        ["tx", "list", "--limit"],
        ["commit", f"--yes={SECRET}"],
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused_without_its_values(
    shell: Shell, tokens: list[str]
) -> None:
    said = shell.json(*tokens)
    assert (said.code, said.error) == (2, "cli.usage")
    assert SECRET not in said.out + said.err


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["no-such"], "Unknown command no-such. See amends"),
        (["recncile"], "Unknown command recncile. Did you mean reconcile? See amends"),
        (["tx", "lst"], "Unknown command lst. Did you mean list? See amends tx"),
        (["plan", "a", "b"], "1 argument more than is taken. See amends plan"),
        (["plan", "--no-such=1"], "Unknown option --no-such. See amends plan"),
        (["plan"], "CAPABILITY is missing, or has no value. See amends plan"),
        (["plan", "a", "b", "c"], "2 arguments more than are taken. See amends plan"),
        (["tx", "list", "--limit", "x"], "--limit does not take this value. See amends tx list"),
        (["tx", "list", "--limit"], "--limit is missing, or has no value. See amends tx list"),
        (
            ["tx", "list", "--limit", "1", "--limit", "2"],
            "An argument is given more than once. See amends tx list",
        ),
    ],
)
def test_a_command_line_that_makes_no_sense_is_told_what_is_wrong(
    shell: Shell, tokens: list[str], words: str
) -> None:
    assert shell(*tokens).err == f"[cli.usage] {words} --help.\n"


def test_a_fault_of_a_command_line_that_has_no_name_is_told_all_the_same() -> None:
    assert usage_error(CycloptsError("x")).message == "The command line cannot be understood."


@pytest.mark.rule("CLI-2")
def test_the_help_of_the_commands_loads_nothing_of_the_engine() -> None:
    """Neither does their completion, which reads every option of every command."""
    commands = [
        *([name] for name, entry in main._COMMANDS.items() if entry.place.startswith(OURS)),
        *(["tx", name] for name in ("list", "show", "watch")),
    ]
    assert len(commands) > 15
    probe = (
        "import sys; from amends.cli import main\n"
        f"for tokens in {commands!r}: assert main.run([*tokens, '--help']) == 0\n"
        "main._app().generate_completion(shell='bash')\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(done.stderr.split())
    assert "amends.cli.commands.committing" in loaded
    assert not HEAVY & loaded


# ── the app ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["capabilities", "single", "make", "make_pairs", "charge"])
def test_an_app_is_a_capability_a_list_of_them_or_a_function_that_gives_one(name: str) -> None:
    loaded = apps.load_capabilities(f"{SHOP}:{name}")
    assert loaded
    assert apps.load_capabilities(None) == ()


@pytest.mark.parametrize(
    ("place", "code", "shows"),
    [
        ("shop", "cli.place_invalid", ""),
        ("shop:", "cli.place_invalid", ""),
        (":shop", "cli.place_invalid", ""),
        ("no.such.module:app", "cli.app_failed", "ModuleNotFoundError"),
        (f"{SHOP}:no_such_name", "cli.app_failed", "AttributeError"),
        (f"{SHOP}:fail", "cli.app_failed", "LookupError: shelves are empty"),
        (f"{SHOP}:leave", "cli.app_failed", "SystemExit: 3"),
        (f"{SHOP}:refuse", "shop.closed", ""),
        (f"{SHOP}:no_app", "cli.app_invalid", ""),
        (f"{SHOP}:listed_badly", "cli.app_invalid", ""),
        (f"{SHOP}:BOOKS", "cli.app_invalid", ""),
        ("no-such-file.toml", "connector.file_unreadable", ""),
    ],
)
def test_an_app_that_cannot_be_used_is_refused_and_its_author_sees_why(
    shell: Shell, place: str, code: str, shows: str
) -> None:
    said = shell.json("plan", "x", "--app", place)
    assert (said.code, said.error) == (2, code)
    assert shows in said.err
    assert ("Traceback" in said.err) == shows.startswith(("LookupError", "SystemExit"))
    assert "import_module" not in said.err
    assert "cli/apps.py" not in said.err
    named = said.json["error"]["details"].get("exception", "")
    assert shows.partition(":")[0] == named


def test_a_module_that_refuses_while_it_is_imported_is_heard(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("closed_shop.py").write_text("from amends import Misuse\nraise Misuse('a.b', 'So.')\n")
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one != str(shell.folder)])
    assert shell.json("plan", "x", "--app", "closed_shop:app").error == "a.b"


def test_settings_are_settings(shell: Shell) -> None:
    assert apps.load_settings(f"{SHOP}:settings") is shop.settings
    assert apps.load_settings(None).drain_ms == 5_000
    said = shell.json("plan", "x", "--settings", f"{SHOP}:charge")
    assert (said.code, said.error) == (2, "cli.app_invalid")


@pytest.mark.rule("CLI-2")
def test_what_apps_and_handlers_print_is_no_answer(shell: Shell) -> None:
    Path("loud_shop.py").write_text(
        "print('an app that prints')\nfrom tests.unit.cli.shop import charge\n"
    )
    ids = ("--input", '{"amount": 5}', "--yes", "--app", "loud_shop:charge")
    said = shell.json("execute", "payments.charge", *ids)
    assert said.data["status"] == "committed"
    assert "an app that prints" in said.err
    assert "a handler that prints" in said.err


# ── who acts ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("TX-VIEW-0")
def test_without_configuration_it_is_the_user_that_the_kernel_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LOGNAME", "USER", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    who = acting.caller(Options())
    import pwd

    assert who.principal.id == f"local:{pwd.getpwuid(os.getuid()).pw_name}"
    assert (who.principal.tenant, who.principal.scopes) == ("default", ("*",))
    assert (who.principal.is_operator, who.asserted, who.trusted) == (False, False, False)


def test_a_user_without_a_name_or_with_one_that_is_no_id_goes_by_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uid = os.getuid()
    assert acting.local_id("DOMAIN\\user") == f"local:uid-{uid}"

    def nobody(_: int) -> object:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", nobody)
    assert acting.os_user() == f"uid-{uid}"
    monkeypatch.setitem(sys.modules, "pwd", None)
    monkeypatch.setattr(os, "getlogin", lambda: "windows-user")
    assert acting.os_user() == "windows-user"


@pytest.mark.rule("TX-VIEW-0")
def test_one_acts_for_another_only_where_that_is_configured(shell: Shell) -> None:
    said = shell.json("approvals", "--as", "bob")
    assert (said.code, said.error) == (2, "cli.principals_required")
    assert "os_users" in said.json["error"]["next_step"]
    for who in ("nobody", "no-such-principal"):
        refused = shell.as_(who, "approvals")
        assert (refused.code, refused.error) == (3, "cli.principal_not_permitted")


def test_the_file_says_what_the_local_user_itself_may(tmp_path: Path) -> None:
    file = tmp_path / "who.toml"
    me = acting.local_id(acting.os_user())
    file.write_text(f'[[principals]]\nid = "{me}"\nkind = "operator"\ngroups = ["ops"]\n')
    file.chmod(0o600)
    own = acting.caller(Options(principals=file)).principal
    assert (own.id, own.is_operator, own.groups) == (me, True, ("ops",))


def test_the_file_says_on_whose_account_a_principal_acts(tmp_path: Path) -> None:
    file = tmp_path / "who.toml"
    user = acting.os_user()
    file.write_text(
        f'[[principals]]\nid = "alice"\ntenant = "acme"\nos_users = ["{user}"]\n'
        'external_account = "acct_1"\nroles = ["buyer"]\n'
    )
    file.chmod(0o600)
    who = acting.caller(Options(principals=file, as_="alice"))
    assert who.identity is not None
    assert (who.identity.tenant, who.identity.external_account) == ("acme", "acct_1")
    assert who.principal.roles == ("buyer",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"not toml", "is not TOML"),
        (b"\xff", "cannot be read"),
        (b'[[principals]]\nid = "a"\nkind = "wizard"\n', "does not fit"),
        (b'[[principals]]\nid = "a"\nscope = ["*"]\n', "does not fit"),
        (b'[[principals]]\nid = "a b"\n', "principal_id is not a well-formed identifier"),
        (b'[[principals]]\nid = "a"\n[[principals]]\nid = "a"\n', "lists an id twice"),
        (None, "cannot be read"),
    ],
)
def test_a_file_of_principals_that_is_none_gives_nobody_anything(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    file = tmp_path / "who.toml"
    if content is not None:
        file.write_bytes(content)
        file.chmod(0o600)
    with pytest.raises(Misuse) as refused:
        acting.caller(Options(principals=file))
    assert refused.value.code == "cli.principals_invalid"
    assert words in refused.value.message


def test_a_file_that_others_can_write_gives_nobody_anything(shell: Shell) -> None:
    shell.principals.chmod(0o666)
    said = shell.as_("bob", "approvals")
    assert (said.code, said.error) == (2, "cli.principals_invalid")


def test_what_is_about_to_be_done_is_named_once(shell: Shell) -> None:
    """By its title and its id, or by its id alone where it has no title of its own."""
    shell.types("n\n")
    titled = shell("execute", "payments.wire", "--input", '{"amount": 5}')
    assert "Wire money\x1b[0m (payments.wire): " in titled.err
    shell.types("n\n")
    alone = shell("execute", "payments.stuck", "--input", '{"amount": 5}')
    assert "payments.stuck\x1b[0m: " in alone.err
    assert "(payments.stuck)" not in alone.err
