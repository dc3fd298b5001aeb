"""Registers policies that no local run made: a base model, a script, a served model. Also finds free names for new ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction

from apps.accounts import audit
from apps.accounts.models import User, Workspace
from apps.common.environments import SCRIPTS
from apps.policies.locations import LocationRefused, checked_location
from apps.policies.models import MAX_ADDRESS, Endpoint, Policy
from contract.endpoint_keys import BadAddress, KeyRefused, address_of, check_key
from contract.hub_ids import is_hub_id

KEY_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*_API_KEY")
MAX_REPLICAS = 31
"""Each replica is contacted on every publication and once a minute."""


class PolicyRefused(Exception):
    """The policy can't be registered. `field` is what to change."""

    field = ""


class NameTaken(PolicyRefused):
    """Names of policies are unique in a workspace."""

    field = "name"


class NoSuchPlace(PolicyRefused):
    """The location is neither an allowed folder nor a hub id, or the script doesn't exist."""

    field = "location"


class BadEndpoint(PolicyRefused):
    """The server's address or its key's variable is invalid."""

    field = "base_url"


def register_model(*, workspace: Workspace, name: str, location: str, description: str = "", by: User) -> Policy:
    """Register a language model from a folder under MODEL_ROOTS on the workers' machines, or from the hub. Raises PolicyRefused.

    Whether it exists is checked when a run or rollouts use it, since the web may run on another machine.
    """
    try:
        location = checked_location(location)
    except LocationRefused as refused:
        raise NoSuchPlace(str(refused)) from None
    return _register(workspace, name, Policy.Kind.MODEL, location, description, by)


def hub_base(*, workspace: Workspace, hub_id: str) -> Policy:
    """The workspace's policy for a model on the hub; unsaved if there's none yet. Raises NoSuchPlace if `hub_id` isn't one."""
    if not is_hub_id(hub_id):
        raise NoSuchPlace(
            f"{hub_id!r} isn't a hub id, such as Qwen/Qwen3-0.6B: an owner and a name, or a name alone. "
            "Register a folder under Policies."
        )
    registered = (
        Policy.objects.trainable().filter(workspace=workspace, location=hub_id, made_by=None).order_by("id").first()
    )
    return registered or Policy(workspace=workspace, name=hub_id, kind=Policy.Kind.MODEL, location=hub_id)


@transaction.atomic
def register_hub_base(*, workspace: Workspace, hub_id: str, by: User) -> Policy:
    """The workspace's policy for a model on the hub, registered if there's none yet. Concurrent calls register it once."""
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
    policy = hub_base(workspace=workspace, hub_id=hub_id)
    if not policy._state.adding:
        return policy
    return register_model(
        workspace=workspace, name=free_name(workspace_id=workspace.pk, wanted=hub_id), location=hub_id, by=by
    )


def register_script(*, workspace: Workspace, name: str, script: str, description: str = "", by: User) -> Policy:
    """Register a script of a built-in environment. Raises PolicyRefused."""
    if script not in SCRIPTS:
        raise NoSuchPlace(f"There is no script {script!r}; known: {', '.join(SCRIPTS)}.")
    return _register(workspace, name, Policy.Kind.SCRIPTED, script, description, by)


@transaction.atomic
def register_served(
    *,
    workspace: Workspace,
    name: str,
    base_url: str,
    model: str,
    key_variable: str = "",
    description: str = "",
    by: User,
) -> Policy:
    """Register a model behind an OpenAI-compatible server, such as vLLM. Raises PolicyRefused."""
    if not model:
        raise NoSuchPlace("Give the model's name on that server.")
    endpoint = register_server(workspace=workspace, base_url=base_url, key_variable=key_variable)
    return _register(workspace, name, Policy.Kind.ENDPOINT, model, description, by, endpoint=endpoint)


def register_server(
    *, workspace: Workspace, base_url: str, replicas: Sequence[str] = (), key_variable: str = ""
) -> Endpoint:
    """Register an OpenAI-compatible server, or several replicas; returns the existing endpoint if there's one. Raises BadEndpoint.

    The key stays in the workers' environment and is only sent where ENDPOINT_KEYS allows. Its variable must end in _API_KEY, so that
    no other secret of the worker can be sent anywhere.
    """
    if not base_url:
        raise BadEndpoint("Give the address of the server, such as http://127.0.0.1:8000/v1.")
    if key_variable and not KEY_VARIABLE.fullmatch(key_variable):
        raise BadEndpoint(
            f"The variable {key_variable!r} must be capital letters and end in _API_KEY, such as VLLM_API_KEY."
        )
    first, *replica_addresses = [_checked_address(address, key_variable) for address in (base_url, *replicas)]
    if len({first, *replica_addresses}) <= len(replica_addresses):
        raise BadEndpoint("The same server is given twice. Give each address once.")
    if len(replica_addresses) > MAX_REPLICAS:
        raise BadEndpoint(f"Got {len(replica_addresses) + 1} servers; expected {MAX_REPLICAS + 1} at most.")
    endpoint, _ = Endpoint.objects.get_or_create(
        workspace=workspace,
        base_url=first,
        replicas=sorted(replica_addresses),
        key_variable=key_variable,
        defaults={"name": _endpoint_name(workspace, first)},
    )
    return endpoint


def _checked_address(address: str, key_variable: str) -> str:
    """The normalized address. Raises BadEndpoint."""
    try:
        address_of(address)
        if key_variable:
            check_key(key_variable, address, settings.ENDPOINT_KEYS)
    except (BadAddress, KeyRefused) as refused:
        raise BadEndpoint(str(refused)) from None
    if len(address) > MAX_ADDRESS:
        raise BadEndpoint(f"The address has {len(address)} characters; expected {MAX_ADDRESS} at most.")
    return address.rstrip("/")  # one server has one spelling


def _register(
    workspace: Workspace,
    name: str,
    kind: str,
    location: str,
    description: str,
    by: User,
    *,
    endpoint: Endpoint | None = None,
) -> Policy:
    try:
        with transaction.atomic():
            policy = Policy.objects.create(
                workspace=workspace, name=name, kind=kind, location=location, description=description, endpoint=endpoint
            )
            audit.record(workspace=workspace, actor=by, action="registered", subject=f"policy {name}", target=policy)
    except IntegrityError:
        raise NameTaken(f"There is a policy called {name!r} already. Choose another name.") from None
    return policy


def _endpoint_name(workspace: Workspace, base_url: str) -> str:
    same_prefix = Endpoint.objects.filter(workspace=workspace, name__startswith=base_url[:90]).count()
    return base_url[:90] + (f" ({same_prefix + 1})" if same_prefix else "")


def free_name(*, workspace_id: UUID, wanted: str) -> str:
    """`wanted`, or the first of `wanted (2)`, `wanted (3)`… that no policy of the workspace has.

    If two runs finish at the same moment with one name, the unique constraint refuses the second, and its worker
    tries again.
    """
    existing_names = set(
        Policy.objects.filter(workspace=workspace_id, name__startswith=wanted[:190]).values_list("name", flat=True)
    )
    if wanted not in existing_names:
        return wanted
    number = 2
    while (name := f"{wanted[:190]} ({number})") in existing_names:
        number += 1
    return name
