"""`manage.py verify_version DATASET NUMBER`: hash a version's files again and compare."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q

from apps.common.ids import parsed_id
from apps.datasets.files.verification import verify
from apps.datasets.models import Version


class Command(BaseCommand):
    help = "Hash the files of frozen dataset versions again and compare them with what was frozen. Exits with 1 if one differs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("dataset", nargs="?", help="Name or id of a dataset; all datasets if left out.")
        parser.add_argument("number", nargs="?", type=int, help="Number of one version; all versions if left out.")

    def handle(self, *args: Any, **options: Any) -> None:
        versions = Version.objects.frozen().select_related("dataset").order_by("dataset", "number")
        if options["dataset"]:
            versions = versions.filter(_named(options["dataset"]))
        if options["number"] is not None:
            versions = versions.filter(number=options["number"])
        if not versions:
            raise CommandError("There is no such frozen version. Leave out the arguments to verify all of them.")
        broken = 0
        for version in versions:
            verification = verify(version)
            broken += not verification.holds
            self.stdout.write(f"{version}: {'holds' if verification.holds else 'BROKEN'}")
            for check in verification.checks:
                self.stdout.write(
                    f"  {check.found or 'missing':64}  {'ok    ' if check.holds else 'DIFFERS'}  {check.name}"
                )
        if broken:
            raise CommandError(f"{broken} of {len(versions)} versions have changed since they were frozen.")


def _named(text: str) -> Q:
    dataset_id = parsed_id(text)
    return Q(dataset=dataset_id) if dataset_id else Q(dataset__name=text)
