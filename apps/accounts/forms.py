"""Forms about people and their memberships."""

import json
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib.auth import password_validation
from django.core.exceptions import ValidationError

from apps.accounts.models import Role, User
from apps.accounts.profile_settings import THEMES
from apps.common.names import NameField

PASSWORD_HELP = "At least 10 characters. A few unrelated words are stronger than symbols."
MAX_REMAPPED_KEYS = 200


class SignInForm(forms.Form):
    email = forms.EmailField(
        label="E-mail address", widget=forms.EmailInput(attrs={"autocomplete": "username", "autofocus": True})
    )
    password = forms.CharField(
        strip=False, max_length=4096, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )


class InvitationForm(forms.Form):
    email = forms.EmailField(label="E-mail address", max_length=254)
    role = forms.TypedChoiceField(choices=Role.choices, coerce=lambda value: Role(int(value)), initial=Role.ANNOTATOR)


class RoleForm(forms.Form):
    role = forms.TypedChoiceField(choices=Role.choices, coerce=lambda value: Role(int(value)))


class WorkspaceForm(forms.Form):
    name = NameField(max_length=100)


class NameForm(forms.Form):
    name = NameField(max_length=100, widget=forms.TextInput(attrs={"autocomplete": "name"}))


class NewPasswordForm(forms.Form):
    """A new password for `user` (saved or not)."""

    password = forms.CharField(
        label="New password",
        strip=False,
        max_length=4096,
        help_text=PASSWORD_HELP,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        password_validation.validate_password(password, self.user)
        return password


class NewAccountForm(NewPasswordForm):
    name = NameField(
        label="Your name", max_length=100, widget=forms.TextInput(attrs={"autocomplete": "name", "autofocus": True})
    )
    field_order = ["name", "password"]

    def clean_name(self) -> str:
        self.user.name = self.cleaned_data["name"]  # a password must not resemble it
        return self.user.name


class PasswordForm(NewPasswordForm):
    current = forms.CharField(
        label="Current password",
        strip=False,
        max_length=4096,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    field_order = ["current", "password"]

    def clean_current(self) -> str:
        current: str = self.cleaned_data["current"]
        if not self.user.check_password(current):
            raise ValidationError("This isn't your current password.")
        return current


class TokenForm(forms.Form):
    LIFETIMES = {"30": "30 days", "90": "90 days", "365": "A year", "never": "Never"}

    name = NameField(
        max_length=100, help_text="What uses it, so that you know later which one to revoke, such as “nightly export”."
    )
    lifetime = forms.ChoiceField(label="Expires after", choices=list(LIFETIMES.items()), initial="90")

    def clean_lifetime(self) -> timedelta | None:
        days: str = self.cleaned_data["lifetime"]
        return None if days == "never" else timedelta(days=int(days))


class PreferencesForm(forms.Form):
    """Preferences saved by scripts: only the submitted fields."""

    theme = forms.ChoiceField(choices=[(theme, theme) for theme in THEMES], required=False)
    keys = forms.CharField(max_length=20_000, required=False)

    def clean_keys(self) -> dict[str, str]:
        """{"Group/Label": "key"}, as static/js/core/keys.js writes it."""
        try:
            keys = json.loads(self.cleaned_data["keys"] or "{}")
        except (ValueError, RecursionError) as error:
            raise ValidationError("Keys are a JSON object of names and keys.") from error
        if not isinstance(keys, dict) or len(keys) > MAX_REMAPPED_KEYS:
            raise ValidationError(f"Keys are a JSON object with at most {MAX_REMAPPED_KEYS} names.")
        if not all(isinstance(key, str) and 0 < len(key) <= 30 for key in keys.values()):
            raise ValidationError("Each key is named by 1 to 30 characters.")
        return keys
