"""The navigation: links, required roles, and keyboard shortcuts."""

from dataclasses import dataclass

from django.urls import ResolverMatch, reverse

from apps.accounts.models import Membership, Role


@dataclass(frozen=True)
class Place:
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

    place: Place
    url: str
    is_current: bool


SETTINGS_PAGES = (
    *(f"webhooks:{name}" for name in ("list", "new", "destination", "change")),
    *("redaction:list", "redaction:new", "redaction:test"),
    *("gateway:feedback_keys", "gateway:new_feedback_key", "removal:rules"),
    "transfer:transfer",
    *("gateway:usage", "gateway:set_limits", "gateway:set_price"),
)
PLACES = (
    Place("Home", "home", "home", "g h", Role.ANNOTATOR),
    Place("Queues", "annotation:queues", "queue", "g q", Role.ANNOTATOR, "annotation"),
    Place(
        "Trajectories",
        "trajectories:list",
        "trajectory",
        "g t",
        Role.REVIEWER,
        "trajectories",
        ("gateway:list", "gateway:session", "traces:list", "annotation:label_all"),
    ),
    Place("Datasets", "datasets:list", "dataset", "g d", Role.RESEARCHER, "datasets"),
    Place("Training", "training:list", "run", "g r", Role.RESEARCHER, "training"),
    Place(
        "Policies",
        "policies:list",
        "policy",
        "g p",
        Role.RESEARCHER,
        "policies",
        (
            *("training:new_rollouts", "training:rollouts"),
            *("gateway:splits", "gateway:split", "gateway:new_split", "gateway:change_split"),
        ),
    ),
    Place("Experiments", "arena:list", "experiment", "g e", Role.RESEARCHER, "arena"),
    Place("Jobs", "jobs:list", "clock", "g j", Role.OWNER, "jobs"),
    Place("Settings", "accounts:settings", "settings", "g s", Role.RESEARCHER, "accounts", SETTINGS_PAGES),
)


def links_for(member: Membership | None, match: ResolverMatch | None) -> list[Link]:
    """The links that `member` may see, in order; the one for `match` is marked as active."""
    if member is None:
        return []
    visible = (place for place in PLACES if member.role >= place.visible_from)
    return [Link(place, reverse(place.view), _holds(place, match)) for place in visible]


def _holds(place: Place, match: ResolverMatch | None) -> bool:
    if match is None:
        return False
    if any(match.view_name in other.pages for other in PLACES):
        return match.view_name in place.pages
    return place.app in match.app_names if place.app else match.view_name == place.view
