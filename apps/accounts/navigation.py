"""The navigation: links, required roles, and keyboard shortcuts."""

from dataclasses import dataclass

from django.urls import ResolverMatch, reverse

from apps.accounts.models import Membership, Role


@dataclass(frozen=True)
class NavItem:
    """A navigation link. It's active on pages of the app `app`, except for those in another link's `pages`."""

    name: str
    view: str
    icon: str
    keys: str
    visible_from: Role = Role.RESEARCHER
    app: str = ""
    pages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Link:
    """A navigation link for one visitor."""

    item: NavItem
    url: str
    is_current: bool


SETTINGS_PAGES = (
    *(f"webhooks:{name}" for name in ("list", "new", "destination", "change")),
    *("redaction:list", "redaction:new", "redaction:test"),
    *("gateway:feedback_keys", "gateway:new_feedback_key", "removal:rules"),
    "transfer:transfer",
    *("gateway:usage", "gateway:set_limits", "gateway:set_price"),
)
NAV_ITEMS = (
    NavItem("Home", "home", "home", "g h", Role.ANNOTATOR),
    NavItem("Queues", "annotation:queues", "queue", "g q", Role.ANNOTATOR, "annotation"),
    NavItem(
        "Trajectories",
        "trajectories:list",
        "trajectory",
        "g t",
        Role.REVIEWER,
        "trajectories",
        ("gateway:list", "gateway:session", "traces:list", "annotation:label_all"),
    ),
    NavItem("Datasets", "datasets:list", "dataset", "g d", Role.RESEARCHER, "datasets"),
    NavItem("Training", "training:list", "run", "g r", Role.RESEARCHER, "training"),
    NavItem(
        "Policies",
        "policies:list",
        "policy",
        "g p",
        Role.RESEARCHER,
        "policies",
        (
            *("training:new_rollouts", "training:new_runner_rollouts", "training:rollouts"),
            *("gateway:splits", "gateway:split", "gateway:new_split", "gateway:change_split"),
        ),
    ),
    NavItem("Experiments", "arena:list", "experiment", "g e", Role.RESEARCHER, "arena"),
    NavItem("Jobs", "jobs:list", "clock", "g j", Role.OWNER, "jobs"),
    NavItem("Settings", "accounts:settings", "settings", "g s", Role.RESEARCHER, "accounts", SETTINGS_PAGES),
)


def links_for(member: Membership | None, match: ResolverMatch | None) -> list[Link]:
    """The links that `member` may see, in order; the one for `match` is marked as active."""
    if member is None:
        return []
    visible = (item for item in NAV_ITEMS if member.role >= item.visible_from)
    return [Link(item, reverse(item.view), _holds(item, match)) for item in visible]


def _holds(item: NavItem, match: ResolverMatch | None) -> bool:
    if match is None:
        return False
    if any(match.view_name in other.pages for other in NAV_ITEMS):
        return match.view_name in item.pages
    return item.app in match.app_names if item.app else match.view_name == item.view
