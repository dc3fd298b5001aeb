"""Checks of compose.yaml and Dockerfile that need no Docker engine."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.endpoint_keys import KeyRefused, check_key, permissions

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service.get("build")]
EXAMPLE = (ROOT / "production.env.example").read_text()
SECRETS = {"SECRET_KEY", "POSTGRES_PASSWORD", "VALKEY_PASSWORD", "VLLM_API_KEY"}
MODEL_WORKERS = {"generator", "generator-cpu", "trainer", "trainer-cpu"}
READ_BY_LIBRARIES = {"WEB_CONCURRENCY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "VLLM_API_KEY"}
"""Variables read by uvicorn, by boto and, for the last one, under the name given by a served policy."""

NOT_FOR_COMPOSE = {
    *("DEBUG", "TEST_DATABASE_NAME"),
    *("PUBLISHED_DIR", "RUNS_DIR", "SECURE_SSL_REDIRECT", "SERVED_RUNS_DIR"),
}
"""Variables for developers, and for installations with other volumes or another proxy than compose.yaml's."""


def filled_in(text: str) -> str:
    """`text` with compose's variables replaced, as with a completed .env."""
    return re.sub(r"\$\{(\w+)(?::[-?][^}]*)?\}", lambda match: sha256(match[1].encode()).hexdigest(), text)


@pytest.fixture(scope="module")
def production() -> dict[str, str]:
    """The environment of a web container."""
    names = {name: filled_in(value) for name, value in SERVICES["web"]["environment"].items() if value is not None}
    names |= {"S3_BUCKET": "", "LOG_LEVEL": "WARNING", "WEB_CONCURRENCY": "2", "ALLOWED_HOSTS": "retrace.example"}
    names |= {"ENDPOINT_KEYS": "VLLM_API_KEY=http://vllm:8000", "OUTGOING_NETWORKS": subnet_of_models()}
    names |= {"MODEL_ROOTS": "/models", "GATEWAY_DEADLINE_SECONDS": "600", "GATEWAY_WITHOUT_DATABASE": "pass"}
    names |= {"TRACES_REST_SECONDS": "120", "WEBHOOK_NETWORKS": "", "EMAIL_PORT": "587", "TRACKERS": "mlflow wandb"}
    return {"PATH": os.environ["PATH"], **names, "CSRF_TRUSTED_ORIGINS": "https://retrace.example"}


def test_every_name_that_our_containers_get_is_read_somewhere() -> None:
    sources = "\n".join(
        path.read_text()
        for folder in ("apps", "contract", "workers", "trainer")
        for path in (ROOT / folder).rglob("*.py")
    )
    for name in OURS:
        for variable in set(SERVICES[name]["environment"]) - READ_BY_LIBRARIES:
            assert f'"{variable}"' in sources, f"{name} is given {variable}, which nothing reads"


def test_every_variable_that_settings_read_can_be_set_in_production() -> None:
    read = set(re.findall(r'environ(?:\.get\(|\[)"(\w+)"', (ROOT / "apps" / "settings.py").read_text()))
    documented = "\n".join(
        page.read_text() for page in [*(ROOT / "docs").glob("*.md"), ROOT / "production.env.example"]
    )
    assert {name for name in read if name not in documented} == {"RETRACE_ENV", "TEST_DATABASE_NAME"}
    assert read - set(SERVICES["web"]["environment"]) == NOT_FOR_COMPOSE


def test_every_variable_of_compose_stands_in_the_example_and_nothing_else_does() -> None:
    variables = set(re.findall(r"\$\{(\w+)", (ROOT / "compose.yaml").read_text())) - {"RETRACE_VERSION"}
    assert set(re.findall(r"^(\w+)=", EXAMPLE, re.MULTILINE)) == variables | {"COMPOSE_PROFILES"}


def test_as_it_comes_every_queue_has_a_worker() -> None:
    chosen = re.search(r"^COMPOSE_PROFILES=(.*)$", EXAMPLE, re.MULTILINE)
    assert chosen
    profiles = set(chosen[1].split(","))
    running = [service for service in SERVICES.values() if profiles & set(service.get("profiles", profiles))]
    queues = {
        queue
        for service in running
        for names in re.findall(r"--queues ([\w,]+)", str(service.get("command")))
        for queue in names.split(",")
    }
    assert queues == {"default", "remote", "generate", "train"}


def test_no_container_fills_the_disk_with_its_log() -> None:
    for name, service in SERVICES.items():
        assert service["logging"]["options"]["max-size"], name


@pytest.mark.parametrize("secret", sorted(SECRETS))
def test_no_secret_has_a_default(secret: str) -> None:
    text = (ROOT / "compose.yaml").read_text()
    assert re.search(rf"\$\{{{secret}:\?", text), f"compose starts without {secret}"
    assert not re.search(rf"\$\{{{secret}:?-", text)
    assert re.search(rf"^{secret}=$", EXAMPLE, re.MULTILINE)


def test_the_key_of_the_vllm_here_goes_to_it_and_nowhere_else() -> None:
    default = re.search(r":-(.*)}$", SERVICES["worker"]["environment"]["ENDPOINT_KEYS"])
    assert default
    assert f"ENDPOINT_KEYS={default[1]}\n" in EXAMPLE
    check_key("VLLM_API_KEY", "http://vllm:8000/v1", permissions(default[1]))
    with pytest.raises(KeyRefused):
        check_key("VLLM_API_KEY", "http://elsewhere:8000/v1", permissions(default[1]))


def subnet_of_models() -> str:
    subnet: str = COMPOSE["networks"]["models"]["ipam"]["config"][0]["subnet"]
    return subnet


def test_endpoints_can_be_in_the_network_of_the_vllm_here_where_nothing_else_listens() -> None:
    default = re.search(r":-(.*)}$", SERVICES["worker"]["environment"]["OUTGOING_NETWORKS"])
    assert default
    assert default[1] == subnet_of_models()
    assert f"OUTGOING_NETWORKS={default[1]}\n" in EXAMPLE
    there = {name for name, service in SERVICES.items() if "models" in service.get("networks", [])}
    assert there == {"gateway", "vllm", "worker", "remote", *MODEL_WORKERS}
    assert SERVICES["vllm"]["networks"] == ["models"]


@pytest.mark.parametrize("name", [".env", "workers.env"])
def test_a_filled_in_env_file_is_never_committed(name: str) -> None:
    ignored = subprocess.run(["git", "check-ignore", "--no-index", name], cwd=ROOT, capture_output=True, text=True)
    assert ignored.stdout.strip() == name


def test_keys_of_other_servers_reach_what_calls_them_alone() -> None:
    assert {name for name in SERVICES if SERVICES[name].get("env_file")} == {
        "gateway",
        "worker",
        "remote",
        *MODEL_WORKERS,
    }


def test_there_is_one_clock_and_a_worker_for_every_queue() -> None:
    commands = [str(service.get("command", "")) for service in SERVICES.values()]
    assert sum(" beat " in command for command in commands) == 1
    queues = {queue for command in commands for queue in re.findall(r"--queues (\w+)", command)}
    from workers.app import app

    routed = {route["queue"] for route in app.conf.task_routes.values()} | {app.conf.task_default_queue}
    assert queues == routed


@pytest.mark.parametrize("name", [name for name in OURS if SERVICES[name].get("command")])
def test_the_commands_exist_and_know_their_options(name: str) -> None:
    words = shlex.split(filled_in(SERVICES[name]["command"]))
    options = [word for word in words if word.startswith("--")]
    if words[:2] == ["python", "manage.py"]:
        helped = [sys.executable, str(ROOT / "manage.py"), words[2], "--help"]
    elif words[0] == "uvicorn":
        assert words[1] == "apps.gateway_asgi:application"
        helped = [sys.executable, "-m", "uvicorn", "--help"]
    elif words[0] == "python":
        assert words[:3] == ["python", "-m", "trainer.serving.local_models"]
        helped = [sys.executable, *words[1:3], "--help"]
    else:
        assert words[:3] == ["celery", "-A", "workers.app"]
        helped = [sys.executable, "-m", "celery", "-A", "workers.app", words[3], "--help"]
    shown = help_of(*helped)
    for option in options:
        assert option in shown or option.replace("--no-input", "--noinput") in shown


@cache
def help_of(*command: str) -> str:
    """What a command prints about its options. Several containers run the same one."""
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"})
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_volumes_and_dependencies_are_declared() -> None:
    for name, service in SERVICES.items():
        for mount in service.get("volumes", []):
            assert mount.split(":")[0] in COMPOSE["volumes"], f"{name} mounts an unknown volume {mount}"
        for needed, how in service.get("depends_on", {}).items():
            assert needed in SERVICES
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[needed]


def test_what_runs_for_long_is_restarted_and_watched() -> None:
    for name, service in SERVICES.items():
        if name == "migrate":
            continue
        assert service["restart"] == "unless-stopped", name
        assert "healthcheck" in service or name == "proxy", name


def test_the_image_holds_what_the_code_needs_and_no_more() -> None:
    docker, ignore = (ROOT / "Dockerfile").read_text(), (ROOT / ".dockerignore").read_text()
    copied = set(re.findall(r"^COPY ([\w./]+) ", docker, re.MULTILINE))
    assert copied == {"requirements.txt", "manage.py", "apps", "contract", "trainer", "workers", "templates", "static"}
    assert {line[1:] for line in ignore.splitlines() if line.startswith("!")} == copied
    assert all((ROOT / path).exists() for path in copied)
    assert re.search(r"^USER (?!root)\w+", docker, re.MULTILINE)


def test_django_finds_nothing_to_warn_of_with_these_settings(production: dict[str, str]) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), "check", "--deploy", "--fail-level", "WARNING"]
    checked = subprocess.run(command, cwd=ROOT, env=production, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("missing", ["SECRET_KEY", "ALLOWED_HOSTS", "DATABASE_URL", "VALKEY_URL"])
def test_production_refuses_to_start_without(production: dict[str, str], missing: str) -> None:
    env = {name: value for name, value in production.items() if name != missing}
    started = subprocess.run(
        [sys.executable, "-c", "import apps.settings"], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert started.returncode == 1
    assert missing in started.stderr.splitlines()[-1]


def test_docker_itself_accepts_the_file(tmp_path: Path) -> None:
    if not shutil.which("docker") or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        pytest.skip("there is no `docker compose` on this machine")
    env_file = tmp_path / "env"
    env_file.write_text(re.sub(r"^(\w+)=$", r"\1=0123456789abcdef", EXAMPLE, flags=re.MULTILINE))
    command = [
        "docker",
        "compose",
        "--env-file",
        str(env_file),
        "--profile",
        "gpu",
        "--profile",
        "cpu",
        "--profile",
        "vllm",
        "config",
        "--quiet",
    ]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_vllm_runs_under_the_keeper_that_watches_what_workers_write() -> None:
    service = SERVICES["vllm"]
    options, _, server = service["command"].partition(" -- ")
    assert server.startswith("python3 -m vllm.entrypoints.openai.api_server --enable-lora")
    assert options.startswith("--default ")
    assert "--max-loras ${VLLM_MAX_LORAS:-4} " in server  # an old and a new adapter for each of at least two names
    assert service["configs"] == [{"source": "keeper", "target": service["entrypoint"][1]}]
    assert (ROOT / COMPOSE["configs"]["keeper"]["file"]).is_file()
    assert service["entrypoint"][3] == "/var/lib/retrace/runs/served/vllm-8000.json"
    assert "retrace:/var/lib/retrace:ro" in service["volumes"]
