"""Every way to authenticate, on real servers that require it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import nkeys  # type: ignore[import-untyped]
import pytest
import trustme
from nacl.signing import SigningKey

from jobs_admin.cli.connection import ConnectionOptions
from tests.cli.shell import shell
from trellis_jobs import (
    CertificateRefused,
    ConnectOptions,
    CredentialsRefused,
    CredentialsUnusable,
    InfrastructureError,
    Service,
    TlsFiles,
)
from trellis_jobs.demo import DemoJobs, Email
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import InvalidToken
from trellis_jobs.jetstream.client.connection import Connection

MAIL: Final = Email(to="ada@example.com", subject="hello")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls_server(authority: trustme.CA, tmp_path: Path) -> Iterator[EmbeddedServer]:
    """Has a certificate, and requires one of the client."""
    own = authority.issue_cert("127.0.0.1")
    own.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    config = f"""
        tls {{
            cert_file: "{tmp_path / "server.pem"}", key_file: "{tmp_path / "server.pem"}"
            ca_file: "{tmp_path / "ca.pem"}", verify: true
        }}
    """
    with EmbeddedServer.start(config=config) as server:
        yield server


@pytest.fixture
def client_files(authority: trustme.CA, tmp_path: Path) -> TlsFiles:
    authority.issue_cert("client@example.com").private_key_and_cert_chain_pem.write_to_path(
        tmp_path / "client.pem"
    )
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    return TlsFiles(ca=str(tmp_path / "authority.pem"), certificate=str(tmp_path / "client.pem"))


async def test_a_service_works_over_tls_with_a_client_certificate(
    tls_server: EmbeddedServer, client_files: TlsFiles
) -> None:
    demo = Service(DemoJobs)

    @demo.jobs.send_email.handle
    async def send(_: object) -> None: ...

    options = ConnectOptions(servers=tls_server.url.replace("nats:", "tls:"), tls=client_files)
    async with demo.connect(options):
        ref = await demo.jobs.send_email.create(MAIL)
        await ref.wait(timeout=10)


async def test_a_command_over_tls_says_nothing_about_tls(
    tls_server: EmbeddedServer, client_files: TlsFiles
) -> None:
    """Each one printed `returning true from eof_received() has no effect when using ssl`."""
    url = tls_server.url.replace("nats:", "tls:")
    files = {"NATS_CA": str(client_files.ca), "NATS_CERT": str(client_files.certificate)}
    applied = await asyncio.to_thread(
        shell, "infra", "apply", env={"NATS_URL": url, "NATS_KEY": files["NATS_CERT"], **files}
    )
    assert (applied.code, applied.err) == (0, "")


async def test_a_server_with_an_unknown_certificate_authority_is_refused(
    tls_server: EmbeddedServer, client_files: TlsFiles
) -> None:
    unknown = TlsFiles(certificate=client_files.certificate)
    with pytest.raises(CertificateRefused, match=r"set the CA certificate that issued it"):
        await Connection.open(
            ConnectOptions(servers=tls_server.url, tls=unknown), name="test", retry_connect=False
        )


async def test_a_worker_does_not_wait_for_a_certificate_that_cannot_be_verified(
    tls_server: EmbeddedServer,
) -> None:
    """`trellis-jobs worker` with the wrong NATS_CA said that no server answers, and waited on."""
    address = tls_server.url.replace("nats:", "tls:")
    with pytest.raises(CertificateRefused):
        async with Service(DemoJobs).connect(address, workers=False, connect_timeout=None):
            pass


async def test_only_the_right_nkey_is_accepted(tmp_path: Path) -> None:
    seed, public = _new_user()
    _, other = _new_user()
    (tmp_path / "user.nk").write_bytes(seed)
    seed_file = str(tmp_path / "user.nk")
    for known, is_accepted in ((public, True), (other, False)):
        config = f'authorization {{ users: [ {{ nkey: "{known}" }} ] }}'
        with EmbeddedServer.start(config=config) as server:
            options = ConnectOptions(servers=server.url, nkey=seed_file)
            if is_accepted:
                connection = await Connection.open(options, name="test")
                assert connection.is_connected
                await connection.close()
            else:
                with pytest.raises(CredentialsRefused):
                    await Connection.open(options, name="test", retry_connect=False)


async def test_user_and_password_need_not_be_in_the_address() -> None:
    config = 'authorization { users: [ { user: "ann", password: "o/p?e#n,sesame" } ] }'
    with EmbeddedServer.start(config=config) as server:
        options = ConnectOptions(servers=server.url, user="ann", password="o/p?e#n,sesame")  # noqa: S106
        connection = await Connection.open(options, name="test")
        assert connection.is_connected
        await connection.close()
        assert "sesame" not in repr(options)


async def test_replies_come_to_the_configured_inbox() -> None:
    config = """authorization { users: [ { user: "a", password: "b", permissions: {
        publish: ["$JS.API.>", "trellis.>"], subscribe: ["_INBOX_a.>", "trellis.>"] } } ] }"""
    with EmbeddedServer.start(config=config) as server:
        options = ConnectOptions(
            servers=server.url,
            user="a",
            password="b",  # noqa: S106
            inbox_prefix="_INBOX_a",
        )
        async with Service(DemoJobs).connect(options, workers=False) as demo:
            await demo.jobs.send_email.create(MAIL)


@pytest.mark.parametrize("prefix", ["", "a b", "a.", "a..b", "a.*", ">", "a\r\nb"])
def test_a_prefix_is_words_joined_by_dots(prefix: str) -> None:
    with pytest.raises(InvalidToken, match="API prefix"):
        ConnectOptions(servers="nats://127.0.0.1:1", api_prefix=prefix)
    with pytest.raises(InvalidToken, match="inbox prefix"):
        ConnectOptions(servers="nats://127.0.0.1:1", inbox_prefix=prefix)


@pytest.mark.parametrize(
    ("configured", "inbox"), [(None, "_INBOX_demo"), ("_INBOX_other", "_INBOX_other")]
)
async def test_a_service_has_its_own_inbox_unless_another_is_configured(
    configured: str | None, inbox: str
) -> None:
    replies = set[str]()
    with EmbeddedServer.start() as server:
        listening = await Connection.open(server.url, name="listens")
        await listening.subscribe("$JS.API.>", lambda m: replies.add(m.reply.split(".")[0]))
        await listening.flush()
        demo = Service(DemoJobs)

        @demo.jobs.send_email.handle
        async def send(_: object) -> None: ...

        async with demo.connect(ConnectOptions(servers=server.url, inbox_prefix=configured)):
            await (await demo.jobs.send_email.create(MAIL)).wait(timeout=10)
        await listening.close()
    assert {reply for reply in replies if reply.startswith("_INBOX")} == {inbox}


@pytest.mark.parametrize(
    "options",
    [
        ConnectOptions(servers="nats://127.0.0.1:1", credentials="/no/such.creds"),
        ConnectOptions(servers="nats://127.0.0.1:1", nkey="/no/such.nk"),
        ConnectOptions(servers="nats://127.0.0.1:1", tls=TlsFiles(ca="/no/such.pem")),
    ],
)
async def test_a_file_that_cannot_be_read_is_named(options: ConnectOptions) -> None:
    with pytest.raises(
        CredentialsUnusable, match=r"/no/such.* cannot be used to connect: .*No such"
    ):
        await Connection.open(options, name="test")


async def test_without_retry_connect_an_unreachable_server_fails_before_the_timeout() -> None:
    """Otherwise the test itself would time out."""
    with pytest.raises(InfrastructureError, match="no NATS server answers"):
        await Connection.open("nats://127.0.0.1:1", name="test", timeout=300, retry_connect=False)


def test_options_can_be_read_from_the_environment() -> None:
    variables = {
        "NATS_URL": "tls://a:1,tls://b:2",
        "NATS_CREDS": "",
        "NATS_NKEY": "user.nk",
        "NATS_CA": "ca.crt",
        "NATS_INBOX_PREFIX": "_INBOX_ann",
        "NATS_API_PREFIX": "$JS.PLATFORM.API",
    }
    assert ConnectOptions.from_environment(variables) == ConnectOptions(
        servers="tls://a:1,tls://b:2",
        nkey="user.nk",
        tls=TlsFiles(ca="ca.crt"),
        inbox_prefix="_INBOX_ann",
        api_prefix="$JS.PLATFORM.API",
    )
    assert ConnectOptions.from_environment({}) == ConnectOptions(servers="nats://127.0.0.1:4222")


def test_the_variables_are_those_of_the_commands() -> None:
    of_commands = set(ConnectionOptions().environment()) - {"NATS_CONTEXT"}
    for variable in of_commands:
        given = {"NATS_URL": "x.y", "NATS_TLS_FIRST": "true"}.get(variable, "x")
        changed = ConnectOptions.from_environment({variable: given})
        assert changed != ConnectOptions.from_environment({}), variable


def _new_user() -> tuple[bytes, str]:
    seed = nkeys.encode_seed(bytes(SigningKey.generate()), nkeys.PREFIX_BYTE_USER)
    return seed, nkeys.from_seed(bytearray(seed)).public_key.decode()
