"""Outgoing connections: what Retrace connects to and how it reports failures, with real sockets, and host names resolved as each test says."""

import ast
import asyncio
import gzip
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from contract.outgoing import async_transport, networks, replies, reply_scheduler, transport
from contract.outgoing.async_transport import MAX_LOOKUPS, asker, async_http_client
from contract.outgoing.networks import AddressRefused, OutgoingRules
from contract.outgoing.replies import error_in, json_of, problem_of
from contract.outgoing.transport import connected_socket, http_client

ROOT = Path(__file__).parents[2]
SECRET = "AccessKeyId and whatever else lies about inside"

CRUMBS = 200_000


class Inside(BaseHTTPRequestHandler):
    """A server that nobody outside should be able to read."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = SECRET.encode()
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", self.headers["Redirect-To"])
            body = b""
        elif self.path == "/packed":
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            body = gzip.compress(bytes(10_000_000))
        elif self.path == "/endless":
            self.send_response(200)
            self.end_headers()
            while True:
                try:
                    self.wfile.write(bytes(65536))
                except OSError:
                    return
        elif self.path == "/crumbs":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"1\r\nx\r\n" * CRUMBS + b"0\r\n\r\n")
            return
        elif self.path == "/drip":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            for _ in range(100):
                time.sleep(0.1)
                try:
                    self.wfile.write(b"x")
                except OSError:
                    return
            return
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def inside() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Inside) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation that allows no private network."""
    monkeypatch.setenv("OUTGOING_NETWORKS", "")


def get(port: int, host: str = "127.0.0.1", path: str = "/", **headers: str) -> httpx.Response:
    with http_client(f"http://{host}:{port}", timeout=5) as client:
        return client.get(path, headers=headers)


def get_async(port: int, host: str = "127.0.0.1", path: str = "/") -> httpx.Response:
    async def ask() -> httpx.Response:
        async with async_http_client(f"http://{host}:{port}", timeout=5, connections=1) as client:
            return await client.get(path)

    return asyncio.run(ask())


LOOPBACK = [
    "127.0.0.1",
    "localhost",
    "127.1",
    "2130706433",
    "0x7f000001",
    "017700000001",
    "[::ffff:127.0.0.1]",
    "127.9.9.9",
]


@pytest.mark.parametrize("host", [*LOOPBACK, "0.0.0.0", "[::]"])
@pytest.mark.parametrize("ask", [get, get_async])
def test_loopback_is_refused_however_it_is_written(inside, closed, ask, host):
    with pytest.raises(AddressRefused, match="doesn't allow its network"):
        ask(inside.server_port, host)


def test_a_host_that_programs_read_in_different_ways_is_no_address(closed):
    with pytest.raises(AddressRefused, match="isn't a server address"):
        get(80, "0177.0.0.1")


def test_the_addresses_of_this_machine_are_known():
    addresses = [entry.address for interface in psutil.net_if_addrs().values() for entry in interface]
    own = [address for address in addresses if "." in address]
    assert own
    assert all(networks.is_of_this_machine(ip_address(address)) for address in own)
    assert not networks.is_of_this_machine(ip_address("93.184.215.14"))


@pytest.mark.parametrize("ask", [get, get_async])
def test_a_named_network_is_connected_to(inside, monkeypatch, ask):
    monkeypatch.setenv("OUTGOING_NETWORKS", "10.0.0.0/8, 127.0.0.0/8")
    assert ask(inside.server_port).text == SECRET


@pytest.mark.parametrize("ask", [get, get_async])
def test_a_name_that_changes_its_mind_is_checked_when_it_is_connected_to(inside, closed, monkeypatch, ask):
    """DNS rebinding: the name resolved to a public address when it was registered, and to loopback at the second lookup."""
    looks = iter([["93.184.215.14"], ["127.0.0.1"]])
    monkeypatch.setattr(transport, "resolve", lambda host, port: next(looks))
    connected: list[str] = []

    def connect(self: Any, host: str, *_: Any, **__: Any) -> Any:
        connected.append(host)
        raise transport.httpcore.ConnectError("not in a test")

    async def connect_async(addr_infos: list[Any], **_: Any) -> Any:
        connected.extend(address for *_, (address, *_) in addr_infos)
        raise OSError("not in a test")

    monkeypatch.setattr(transport.httpcore.SyncBackend, "connect_tcp", connect)
    monkeypatch.setattr(async_transport.aiohttp.connector.aiohappyeyeballs, "start_connection", connect_async)
    with pytest.raises(httpx.ConnectError):
        ask(inside.server_port, "model.example")
    with pytest.raises(AddressRefused):
        ask(inside.server_port, "model.example")
    assert connected == ["93.184.215.14"]


def test_only_the_allowed_addresses_of_a_name_are_tried():
    rules = OutgoingRules()
    assert rules.reachable("both.example", 80, ["10.0.0.1", "93.184.215.14", "::1"]) == ["93.184.215.14"]


def test_all_addresses_of_a_name_together_take_no_longer_than_one(closed, monkeypatch):
    many = [f"93.184.{high}.{low}" for high in range(16) for low in range(200)]
    monkeypatch.setattr(transport, "resolve", lambda host, port: many)
    clock = [1000.0]
    monkeypatch.setattr(transport.time, "monotonic", lambda: clock[0])
    tried: list[str] = []

    def connect(address: str, timeout: float) -> None:
        tried.append(address)
        clock[0] += timeout

    def connect_tcp(self: Any, host: str, port: int, timeout: float, *_: Any) -> Any:
        connect(host, timeout)
        raise transport.httpcore.ConnectTimeout("not in a test")

    def create_connection(address: tuple[str, int], timeout: float) -> Any:
        connect(address[0], timeout)
        raise TimeoutError

    monkeypatch.setattr(transport.httpcore.SyncBackend, "connect_tcp", connect_tcp)
    monkeypatch.setattr(transport.socket, "create_connection", create_connection)
    with pytest.raises(httpx.ConnectTimeout), http_client("http://many.example", timeout=10) as client:
        client.get("/")
    with pytest.raises(TimeoutError):
        connected_socket("many.example", 80, timeout=10)
    assert clock[0] - 1000 == pytest.approx(20)
    assert tried == many[:16] * 2


def test_redirects_are_not_followed_and_proxies_of_the_environment_not_asked(inside, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    reply = get(inside.server_port, path="/redirect", **{"Redirect-To": "http://169.254.169.254/latest/meta-data"})
    assert reply.status_code == 302
    assert problem_of(reply) == "it redirects (302), and redirects aren't followed"


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.0.1",
            "100.64.0.1",
            "169.254.169.254",
            "0.0.0.0",
            "224.0.1.1",
        ),
        *(
            "255.255.255.255",
            "240.0.0.1",
            "198.18.0.1",
            "192.0.2.1",
            "192.0.0.8",
            "::1",
            "::",
            "fd00::1",
            "fe80::1",
            "fec0::1",
        ),
        *("ff02::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:a00:1::1", "::a00:1", "2001::1"),
        "168.63.129.16",
    ],
)
def test_without_named_networks_only_the_public_internet_is_reachable(address):
    assert not OutgoingRules().allows(ip_address(address))


@pytest.mark.parametrize(
    "address", ["93.184.215.14", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_the_public_internet_is_reachable(address):
    assert OutgoingRules().allows(ip_address(address))


@pytest.mark.parametrize(
    ("networks_named", "address", "allowed"),
    [
        ("0.0.0.0/0 ::/0", "10.1.2.3", True),
        ("0.0.0.0/0 ::/0", "169.254.169.254", False),
        ("169.254.0.0/16", "169.254.169.254", False),
        ("169.254.0.0/16", "169.254.1.1", False),
        ("169.254.169.254", "169.254.169.254", True),
        ("0.0.0.0/0 ::/0", "::ffff:169.254.169.254", False),
        ("0.0.0.0/0 ::/0", "64:ff9b::a9fe:a9fe", False),
        ("::/0", "fd00:ec2::254", False),
        ("::/0", "fe80::1", False),
        ("0.0.0.0/0 ::/0", "0.0.0.0", False),
        ("0.0.0.0/0 ::/0", "ff02::1", False),
        ("100.64.0.0/10", "100.100.100.200", False),
        ("100.64.0.0/10", "100.64.0.1", True),
        ("10.0.0.0/8", "::ffff:10.0.0.1", True),
    ],
)
def test_metadata_and_link_local_addresses_are_allowed_one_by_one(networks_named, address, allowed):
    rules = OutgoingRules.from_environment({"OUTGOING_NETWORKS": networks_named})
    assert rules.allows(ip_address(address)) is allowed


def test_production_is_closed_until_networks_are_named_and_make_run_has_loopback():
    assert OutgoingRules.from_environment({"RETRACE_ENV": "production"}).networks == ()
    assert OutgoingRules.from_environment({}).allows(ip_address("127.0.0.1"))
    assert not OutgoingRules.from_environment({}).allows(ip_address("10.0.0.1"))


@pytest.mark.parametrize("host", LOOPBACK)
def test_the_services_of_retrace_are_refused_where_loopback_is_allowed(inside, monkeypatch, host):
    monkeypatch.setenv("OUTGOING_NETWORKS", "0.0.0.0/0 ::/0")
    monkeypatch.setenv("OUTGOING_REFUSED_SERVICES", f"127.0.0.1:{inside.server_port}")
    with pytest.raises(AddressRefused, match="one of Retrace's own services"):
        get(inside.server_port, host)
    with pytest.raises(AddressRefused, match="one of Retrace's own services"):
        connected_socket(host.strip("[]"), inside.server_port, timeout=1)


def test_the_database_and_valkey_are_services_and_a_child_process_knows_them_without_their_urls():
    parent = OutgoingRules.from_environment(
        {
            "DATABASE_URL": "postgresql://retrace:secret@db.internal/retrace",
            "VALKEY_URL": "unix:///tmp/valkey.sock?db=0",
            "OUTGOING_NETWORKS": "10.0.0.0/8",
            "OUTGOING_REFUSED_SERVICES": "[::1]:8000",
        }
    )
    assert parent.services == (("::1", 8000), ("db.internal", 5432))
    child = parent.to_environment()
    assert child == {"OUTGOING_NETWORKS": "10.0.0.0/8", "OUTGOING_REFUSED_SERVICES": "[::1]:8000,db.internal:5432"}
    assert OutgoingRules.from_environment(child) == parent


def test_a_service_on_another_machine_is_refused_by_the_address_that_its_name_has(monkeypatch):
    monkeypatch.setattr(networks, "resolve", lambda host, port: ["10.0.0.5"])
    rules = OutgoingRules.from_environment(
        {"OUTGOING_NETWORKS": "10.0.0.0/8", "VALKEY_URL": "redis://:secret@valkey:6379/0"}
    )
    with pytest.raises(AddressRefused, match="own services"):
        rules.reachable("innocent.example", 6379, ["10.0.0.5"])
    assert rules.reachable("innocent.example", 8000, ["10.0.0.5"]) == ["10.0.0.5"]


@pytest.mark.parametrize("ask", [get, get_async])
def test_a_reply_is_bounded_in_size_and_not_unpacked(inside, monkeypatch, ask):
    monkeypatch.setattr(transport, "LARGEST_REPLY", 2 * 1024 * 1024)
    with pytest.raises(httpx.ReadError, match="more than"):
        ask(inside.server_port, path="/endless")
    with pytest.raises(httpx.ReadError, match="compressed"):
        ask(inside.server_port, path="/packed")


def test_a_reply_in_chunks_of_a_byte_lets_others_have_their_turn(inside):
    """For 1.2 MB; an event loop reads at most 256 KiB at once."""
    turns = size = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def ask() -> None:
        nonlocal size
        address = f"http://127.0.0.1:{inside.server_port}"
        async with (
            async_http_client(address, timeout=30, connections=1) as client,
            client.stream("GET", "/crumbs") as reply,
        ):
            busy = asyncio.create_task(others())
            async for piece in reply.aiter_raw():
                size += len(piece)
        busy.cancel()

    asyncio.run(ask())
    assert size == CRUMBS
    assert turns >= 4


def test_many_replies_of_one_asker_leave_most_of_the_event_loop_to_others(inside, monkeypatch):
    """However many they are, in some passes of the event loop no more of them is processed than of one reply."""
    monkeypatch.setattr(transport, "LARGEST_REPLY", 1024 * 1024)
    of_pass = [0]

    async def others() -> None:
        while True:
            of_pass.append(0)
            await asyncio.sleep(0)

    async def ask(client: httpx.AsyncClient) -> None:
        asker.set("one workspace")
        with suppress(httpx.ReadError):  # it's too long
            async with client.stream("GET", "/endless") as reply:
                async for piece in reply.aiter_raw():
                    of_pass[-1] += len(piece)

    async def ask_often() -> None:
        address = f"http://127.0.0.1:{inside.server_port}"
        async with async_http_client(address, timeout=30, connections=8) as client:
            busy = asyncio.create_task(others())
            await asyncio.gather(*(ask(client) for _ in range(8)))
            busy.cancel()

    asyncio.run(ask_often())
    assert sum(of_pass) > 4 * 1024 * 1024
    # What was let through in the pass before may run in the first of fifty, and one piece go beyond the last one's share.
    most = 53 * reply_scheduler.PASS_BYTES + reply_scheduler.PIECE_BYTES
    assert max(sum(of_pass[first : first + 50]) for first in range(len(of_pass))) <= most


def test_names_whose_servers_do_not_answer_hold_up_only_who_asks_for_them(inside, monkeypatch):
    """A lookup may take half a minute, and an event loop has few threads for them."""
    hanging, answered, begun = transport.resolve, threading.Event(), []

    def resolve(host: str, port: int) -> list[str]:
        if not host.endswith(".example"):
            return hanging(host, port)
        begun.append(host)
        answered.wait(60)
        return []

    async def call(host: str, workspace: str) -> httpx.Response:
        asker.set(workspace)
        async with async_http_client(f"http://{host}:{inside.server_port}", timeout=60, connections=1) as client:
            return await client.get("/")

    async def ask() -> None:
        slow = [asyncio.create_task(call(f"name{number}.example", "one")) for number in range(50)]
        try:
            while not begun:
                await asyncio.sleep(0.01)
            assert (await asyncio.wait_for(call("127.0.0.1", "another"), 20)).is_success
            assert await asyncio.wait_for(asyncio.to_thread(lambda: True), 20)
            assert len(begun) == MAX_LOOKUPS
            with pytest.raises(httpx.TimeoutException):
                async with async_http_client("http://late.example", timeout=0.1, connections=1) as client:
                    await client.get("/")
        finally:
            answered.set()
        assert {type(result) for result in await asyncio.gather(*slow, return_exceptions=True)} == {httpx.ConnectError}

    monkeypatch.setattr(transport, "resolve", resolve)
    asyncio.run(ask())


def test_a_host_that_is_no_name_is_refused():
    with pytest.raises(AddressRefused, match="isn't a server address"):
        http_client("http://xn--/", timeout=1)


def test_a_reply_that_drips_is_over_when_its_time_is(inside):
    with http_client(f"http://127.0.0.1:{inside.server_port}", timeout=0.5) as client, pytest.raises(httpx.ReadTimeout):
        client.get("/drip")  # in full, it would end in another error


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (404, SECRET.encode(), "it has no such path or model (404)"),
        (401, b"<html>secret</html>", "it refuses the key, or requires one (401)"),
        (500, json.dumps({"message": SECRET, "code": 3}).encode(), "it failed (500)"),
        (400, json.dumps({"detail": SECRET}).encode(), "it refused the request (400)"),
        (204, b"", "its status is 204, which isn't a reply to this request"),
        (400, b"[" * 100_000, "it refused the request (400)"),
        (
            400,
            json.dumps({"error": {"message": "Too\nlong: \ud800\x1b[31m", "type": "BadRequestError"}}).encode(),
            "it refused the request (400): Too long: \\ud800\\x1b[31m",
        ),
        (
            429,
            json.dumps({"object": "error", "message": "Wait.", "type": "x"}).encode(),
            "it's overloaded (429): Wait.",
        ),
    ],
)
def test_a_body_is_quoted_only_where_it_is_an_error_of_the_protocol(status, body, problem):
    assert problem_of(httpx.Response(status, content=body)) == problem


def test_a_reply_of_very_many_values_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replies, "MAX_VALUES", 100)
    assert json_of(httpx.Response(200, content=b'{"a": [1]}')) == {"a": [1]}
    with pytest.raises(ValueError, match="more than 100 values"):
        json_of(httpx.Response(200, content=b"[" + b"[]," * 100 + b"[]]"))


def test_nobody_reads_a_reply_without_that_bound():
    paths = (path for part in ("apps", "contract", "trainer", "workers") for path in (ROOT / part).rglob("*.py"))
    unbounded = [
        (str(path.relative_to(ROOT)), node.lineno)
        for path in paths
        if ".json()" in (source := path.read_text())
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node).endswith(".json()")
        if ast.unparse(node)
        != "request.json()"  # requests to servers behind the gateway, which has counted their bytes
    ]
    assert unbounded == []


def test_a_quoted_message_is_short():
    assert len(error_in(json.dumps({"error": {"message": "x" * 10_000, "type": "x"}}))) == 300


ENDS = """
import asyncio, sys
from contract.outgoing.async_transport import async_http_client

async def main():
    global client
    client = async_http_client(sys.argv[1], timeout=30, connections=1)
    await client.get("/")

asyncio.run(main())
"""


def test_a_process_ends_quietly_with_its_clients_open(inside):
    command = [sys.executable, "-c", ENDS, f"http://127.0.0.1:{inside.server_port}"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
