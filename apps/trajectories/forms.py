"""The upload form."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile


class FilesInput(forms.ClearableFileInput):
    """A file input that accepts several files."""

    allow_multiple_selected = True


class FilesField(forms.FileField):
    """One or more uploaded files, as a list."""

    widget = FilesInput(attrs={"multiple": True, "aria-describedby": "uploads-help"})

    def clean(self, data: Any, initial: Any = None) -> Any:
        uploads = data if isinstance(data, list | tuple) else [data]
        files: list[UploadedFile[Any]] = [super(FilesField, self).clean(file, initial) for file in uploads if file]
        if not files:
            raise forms.ValidationError("Choose a file.", code="required")
        return files


class ImportForm(forms.Form):
    """Files of trajectories."""

    uploads = FilesField(
        label="Files",
        allow_empty_file=True,  # empty files are refused by the import, with the same message everywhere
        help_text="JSON Lines, JSON or .traj, also gzipped; .eval; Parquet or CSV; a folder of them as zip or tar. The format is detected automatically.",
    )
    policy_name = forms.CharField(
        label="Policy",
        required=False,
        max_length=200,
        help_text="The policy, if the files don't name one: the name of a model or an agent.",
    )
