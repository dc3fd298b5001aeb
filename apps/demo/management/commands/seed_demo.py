"""Creates the demo workspace, and prints its accounts."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.demo import story
from apps.demo.people import RefusedInProduction, demo_workspace
from apps.demo.sign_ins import PASSWORD, SIGN_INS


class Command(BaseCommand):
    help = "Creates the demo workspace (once) and starts filling it: trajectories, judgments, training, a comparison."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            workspace = demo_workspace()
        except RefusedInProduction as refusal:
            raise CommandError(str(refusal)) from None
        story.advance(workspace)
        self.stdout.write(f"Sign in to “{workspace}” with the password {PASSWORD}:")
        for sign_in in SIGN_INS:
            self.stdout.write(f"  {sign_in.email:<26}{sign_in.role}")
