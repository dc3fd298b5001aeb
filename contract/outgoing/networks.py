"""Which addresses may be connected to: the public internet, and the private networks that the installation names."""

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple, Self
from urllib.parse import urlsplit

NETWORKS = "OUTGOING_NETWORKS"
"""The variable that names private networks, such as "127.0.0.0/8,10.0.0.0/8"."""
WEBHOOK_NETWORKS = "WEBHOOK_NETWORKS"
"""The same for webhooks, which may not reach the networks of model servers: a POST there could change what they serve."""
SERVICES = "OUTGOING_REFUSED_SERVICES"
"""The variable that names Retrace's own services, such as "127.0.0.1:8000". `make run` and the workers set it."""
LOOPBACK = "127.0.0.0/8,::1/128"
SERVICE_PORTS = {"postgres": 5432, "postgresql": 5432, "redis": 6379, "rediss": 6379, "valkey": 6379}

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

METADATA = frozenset(
    map(
        ip_address,
        ("169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    )
)
"""Cloud metadata services, which give credentials to anyone who asks from inside: AWS and most others, ECS, AWS over IPv6, Alibaba, Azure, Oracle."""
NEVER = tuple(map(ip_network, ("0.0.0.0/8", "::/128", "224.0.0.0/4", "ff00::/8", "255.255.255.255/32")))
"""Addresses that no server has: "this host", multicast, and broadcast."""
NAT64 = ip_network("64:ff9b::/96")
UNCLEAR = tuple(map(ip_network, ("::/96", "64:ff9b:1::/48", "2001::/32", "fec0::/10", "192.0.0.0/24")))
"""Addresses whose destination can't be told from their bits: IPv4-compatible, local NAT64, Teredo, site-local, and IETF protocol
assignments, which older versions of Python consider global.
"""


class AddressRefused(OSError):
    """This installation doesn't connect to that address. Retrying won't help."""


class Service(NamedTuple):
    """A service of this installation, which endpoints may not point to."""

    host: str
    port: int


@dataclass(frozen=True)
class OutgoingRules:
    """Which addresses an installation may connect to."""

    networks: tuple[Network, ...] = ()
    services: tuple[Service, ...] = ()
    setting: str = NETWORKS
    """The variable that names the networks."""

    @classmethod
    def for_webhooks(cls) -> Self:
        """This process's rules for webhook addresses. Raises ValueError."""
        return cls.from_environment(setting=WEBHOOK_NETWORKS)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ, *, setting: str = NETWORKS) -> Self:
        """This process's rules. Without OUTGOING_NETWORKS, loopback is refused only in production. Raises ValueError."""
        default = "" if environment.get("RETRACE_ENV") == "production" else LOOPBACK
        services = services_in(environment.get(SERVICES, ""))
        services += [
            service
            for name in ("DATABASE_URL", "VALKEY_URL")
            if (service := service_of_url(environment.get(name, ""))) is not None
        ]
        return cls(
            tuple(networks_in(environment.get(setting, default), setting)), tuple(dict.fromkeys(services)), setting
        )

    def to_environment(self) -> dict[str, str]:
        """The same rules for a child process, which mustn't see the addresses of the database and Valkey."""
        return {
            NETWORKS: ",".join(map(str, self.networks)),
            SERVICES: ",".join(f"{host_in_url(service.host)}:{service.port}" for service in self.services),
        }

    def reachable(self, host: str, port: int, resolved: Iterable[str]) -> list[str]:
        """The addresses in `resolved` (of `host`) that may be connected to. Raises AddressRefused if there are none."""
        addresses = [ip_address(address.partition("%")[0]) for address in resolved]
        allowed = [address for address in addresses if self.allows(address)]
        if not allowed:
            raise AddressRefused(
                f"{host} isn't an address on the public internet, and this installation doesn't allow its network. "
                f"Whoever operates Retrace can add the network to {self.setting}."
            )
        if any(self._is_own_service(address, port) for address in allowed):
            raise AddressRefused(f"{host}:{port} is one of Retrace's own services. Name another server.")
        return [str(address) for address in allowed]

    def allows(self, address: Address) -> bool:
        """Whether the installation allows connections to `address`, whatever the port."""
        address = destination(address)
        if any(address in network for network in NEVER):
            return False
        matching = [network for network in self.networks if address in network]
        if address in METADATA or address.is_link_local:
            return any(network.num_addresses == 1 for network in matching)
        if matching:
            return True
        return address.is_global and not address.is_reserved and not any(address in network for network in UNCLEAR)

    def _is_own_service(self, address: Address, port: int) -> bool:
        address = destination(address)
        for service in self.services:
            if service.port != port:
                continue
            if service.host in ("", "0.0.0.0", "::") or is_loopback(service.host):  # it listens on this machine
                if address.is_loopback or is_of_this_machine(address):
                    return True
            elif str(address) in resolve(service.host, port):
                return True
        return False


def destination(address: Address) -> Address:
    """Where packets to `address` end up: an IPv6 address can embed an IPv4 address (mapped, NAT64, 6to4)."""
    if isinstance(address, IPv6Address):
        if address in NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
        return address.ipv4_mapped or address.sixtofour or address
    return address


def networks_in(text: str, setting: str = NETWORKS) -> list[Network]:
    """The networks that a setting lists, separated by commas or spaces. Raises ValueError."""
    try:
        return [ip_network(part) for part in text.replace(",", " ").split()]
    except ValueError as error:
        raise ValueError(
            f"{setting} is {text!r}: {error}. Expected networks, such as 127.0.0.0/8,10.0.0.0/8."
        ) from None


def services_in(text: str) -> list[Service]:
    """The services that a setting lists, separated by commas or spaces. Raises ValueError."""
    services = []
    for part in text.replace(",", " ").split():
        host, _, port = part.rpartition(":")
        if not port.isdecimal():
            raise ValueError(f"{SERVICES} has {part!r}; expected a host and a port, 127.0.0.1:8000.")
        services.append(Service(host.strip("[]"), int(port)))
    return services


def service_of_url(url: str) -> Service | None:
    """The host and port in a database's URL; None for a Unix socket, which an endpoint's address can't reach."""
    parts = urlsplit(url)
    if not parts.hostname or parts.scheme not in SERVICE_PORTS:
        return None
    return Service(parts.hostname, parts.port or SERVICE_PORTS[parts.scheme])


def host_in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host; none if it doesn't resolve. Parsed as the system does: 0177.1 and 2130706433 are 127.0.0.1."""
    try:
        return list(dict.fromkeys(str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
    except (OSError, UnicodeError):
        return []


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_of_this_machine(address: Address) -> bool:
    """Whether `address` belongs to this machine: packets to it would have it as their source, too. Sends nothing."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return str(probe.getsockname()[0]) == str(address)
    except OSError:
        return False
