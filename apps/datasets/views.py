"""Pages of datasets: the list, freezing with a live preview, and a version's contents."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.annotation.models import Queue
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest, whole_number
from apps.common.ids import parsed_id
from apps.common.pages import page_of
from apps.common.sorting import sorting_by
from apps.datasets import freezing
from apps.datasets.card import markdown
from apps.datasets.figures import agreement_rows
from apps.datasets.files.archive import PROCESS_LABELS, STEPWISE, archive, stepwise_rows
from apps.datasets.files.export import CONTENT_TYPES, export
from apps.datasets.files.verification import verify as verification_of
from apps.datasets.forms import DatasetForm, RecipeForm
from apps.datasets.models import Dataset, Split, Version
from apps.datasets.presentation import annotator_views, dropped_views, policy_views, row_view, rule_views, split_views
from apps.datasets.preview import preview as preview_of
from apps.datasets.queries import DATASET_COLUMNS, datasets_for_list, freezable_queues, next_number, sample_rows
from apps.datasets.recipe import BadRecipe
from apps.datasets.rows import ROW_TYPES
from apps.datasets.snippets import snippets

ROWS_A_PAGE = 10
ROWS_ON_VERSION = 2


@require_safe
@at_least(Role.RESEARCHER)
def dataset_list(request: HtmxRequest) -> HttpResponse:
    sorting = sorting_by(DATASET_COLUMNS, request.GET.get("sort", ""))
    page = page_of(datasets_for_list(request.member), cursor=request.GET.get("cursor", ""), order=sorting.fields)
    queue = _queue(request)
    if queue and not page.rows:
        return redirect(f"{reverse('datasets:new')}?queue={queue.pk}")
    context = {"page": page, "sorting": sorting, "queue": queue, "without": _without(request)}
    return render(request, "datasets/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@at_least(Role.RESEARCHER)
def new_dataset(request: HtmxRequest) -> HttpResponse:
    queue = _queue(request)
    form = DatasetForm(request.POST or None, initial={"name": queue.name if queue else ""})
    if request.method == "POST" and form.is_valid():
        try:
            dataset = freezing.create_dataset(**form.cleaned_data, by=request.member)
            return redirect(
                reverse("datasets:new_version", args=[dataset.pk]) + (f"?queue={queue.pk}" if queue else "")
            )
        except freezing.NameTaken as refusal:
            form.add_error("name", str(refusal))
    status = 422 if form.is_bound else 200
    return render(request, "datasets/new.html", {"form": form, "queue": queue}, status=status)


@require_safe
@at_least(Role.RESEARCHER)
def dataset(request: HtmxRequest, dataset_id: UUID) -> HttpResponse:
    dataset = _dataset(request, dataset_id)
    versions = dataset.versions.select_related("created_by").defer("card", "files", "recipe")
    page = page_of(versions, cursor=request.GET.get("cursor", ""), order=("-number",))
    context = {
        "dataset": dataset,
        "page": page,
        "next_number": next_number(dataset),
        "is_moving": any(version.is_active for version in page),
    }
    return render(request, "datasets/dataset.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@at_least(Role.RESEARCHER)
def new_version(request: HtmxRequest, dataset_id: UUID) -> HttpResponse:
    dataset = _dataset(request, dataset_id)
    form = RecipeForm(request.POST or None, member=request.member, initial=_initial(request, dataset))
    if request.method == "POST" and form.is_valid():
        try:
            version = freezing.request_version(dataset=dataset, recipe=form.recipe, by=request.member)
            return redirect("datasets:version", dataset.pk, version.number)
        except BadRecipe as refusal:
            form.add_error(refusal.field if refusal.field in form.fields else None, refusal.problem)
        except freezing.NothingToFreeze as refusal:
            form.add_error(None, str(refusal))
    context = {
        "dataset": dataset,
        "form": form,
        "next_number": next_number(dataset),
        "has_queues": freezable_queues(request.member).exists(),
        "queues_address": reverse("annotation:queues"),
    }
    return render(request, "datasets/new_version.html", context, status=422 if form.is_bound else 200)


@require_POST
@at_least(Role.RESEARCHER)
def preview(request: HtmxRequest, dataset_id: UUID) -> HttpResponse:
    """Show what submitting the form now would freeze."""
    dataset = _dataset(request, dataset_id)
    form = RecipeForm(request.POST, member=request.member)
    context: dict[str, Any] = {"dataset": dataset, "form": form, "next_number": next_number(dataset)}
    if form.is_valid():
        context["preview"] = preview_of(form.recipe, dataset.workspace)
    return render(request, "datasets/_preview.html", context)


@require_safe
@at_least(Role.RESEARCHER)
def version(request: HtmxRequest, dataset_id: UUID, number: int) -> HttpResponse:
    version = _version(request, dataset_id, number)
    context: dict[str, Any] = {"version": version, "dataset": version.dataset, "rules": rule_views(version)}
    if version.state == Version.State.FROZEN:
        shown = next((split for split in Split if version.row_counts[split.value]), Split.TRAIN)
        samples = sample_rows(version, shown.value, start=0, count=ROWS_ON_VERSION)
        context |= {
            "card": version.card,
            "splits": split_views(version),
            "agreement": agreement_rows(version.card),
            "annotators": annotator_views(version, request.member),
            "dropped": dropped_views(version),
            **policy_views(version),
            "kinds": _contents(version),
            "queues": _queues(request, version),
            "sample": [row_view(sample) for sample in samples],
            "shown_split": shown,
            "snippets": snippets(request, version),
            "trainer": ROW_TYPES[version.row_type].trainer,
            "train_address": reverse("training:new"),
        }
    return render(request, "datasets/version.html", context)


@fragment_of(lambda dataset_id, number, **_: reverse("datasets:version", args=[dataset_id, number]))
@require_safe
@at_least(Role.RESEARCHER)
def version_live(request: HtmxRequest, dataset_id: UUID, number: int) -> HttpResponse:
    """The progress partial, for browsers without a websocket."""
    return render(request, "datasets/_progress.html", {"version": _version(request, dataset_id, number)})


@require_safe
@at_least(Role.RESEARCHER)
def rows(request: HtmxRequest, dataset_id: UUID, number: int) -> HttpResponse:
    """The rows of one split, paginated."""
    version = _frozen(request, dataset_id, number)
    split = request.GET.get("split", Split.TRAIN.value)
    if split not in Split.values:
        raise Http404
    start = whole_number(request.GET.get("from"), otherwise=0)
    shown = [row_view(sample) for sample in sample_rows(version, split, start=start, count=ROWS_A_PAGE)]
    context = {
        "version": version,
        "dataset": version.dataset,
        "splits": split_views(version),
        "split": Split(split),
        "rows": shown,
        "total": version.row_counts[split],
        "start": start,
        "last": start + len(shown) - 1,
        "previous": max(0, start - ROWS_A_PAGE),
        "next": start + len(shown) if shown and start + len(shown) < version.row_counts[split] else None,
    }
    return render(request, "datasets/rows.html", context)


@require_safe
@at_least(Role.RESEARCHER)
def file(request: HtmxRequest, dataset_id: UUID, number: int) -> HttpResponseBase:
    """A file of the version for the browser; programs use the API."""
    version = _frozen(request, dataset_id, number)
    format, split = request.GET.get("format", "jsonl"), request.GET.get("split", Split.TRAIN.value)
    if format == STEPWISE and version.row_type == PROCESS_LABELS and split in Split.values:
        return stepwise_rows(request, version, split)
    if format not in CONTENT_TYPES or split not in Split.values:
        raise Http404
    return export(request, version, format=format, split=split)


@require_safe
@at_least(Role.RESEARCHER)
def all_splits(request: HtmxRequest, dataset_id: UUID, number: int) -> HttpResponseBase:
    """Every split and the card in one archive."""
    version = _frozen(request, dataset_id, number)
    return archive(request, version, markdown(version))


@require_safe
@at_least(Role.RESEARCHER)
def card_markdown(request: HtmxRequest, dataset_id: UUID, number: int) -> HttpResponse:
    """The card as a README."""
    text = markdown(_frozen(request, dataset_id, number))
    headers = {"Content-Disposition": 'attachment; filename="README.md"'}
    return HttpResponse(text, content_type="text/markdown; charset=utf-8", headers=headers)


@require_POST
@at_least(Role.RESEARCHER)
def verify(request: HtmxRequest, dataset_id: UUID, number: int) -> HttpResponse:
    """Hash the files again now."""
    version = _frozen(request, dataset_id, number)
    verification = verification_of(version)
    if request.htmx:
        return render(request, "datasets/_verification.html", {"version": version, "verification": verification})
    if verification.holds:
        messages.success(request, "Every file is unchanged since it was frozen.")
    else:
        messages.error(request, "A file has changed since it was frozen.")
    return redirect("datasets:version", dataset_id, number)


def _dataset(request: HtmxRequest, dataset_id: UUID) -> Dataset:
    return get_object_or_404(Dataset.objects.visible_to(request.member), pk=dataset_id)


def _version(request: HtmxRequest, dataset_id: UUID, number: int) -> Version:
    versions = Version.objects.visible_to(request.member).select_related("dataset", "created_by")
    return get_object_or_404(versions, dataset=dataset_id, number=number)


def _frozen(request: HtmxRequest, dataset_id: UUID, number: int) -> Version:
    version = _version(request, dataset_id, number)
    if version.state != Version.State.FROZEN:
        raise Http404
    return version


def _without(request: HtmxRequest) -> str:
    """The annotator that a link asks to exclude; the form checks that it exists."""
    return str(parsed_id(request.GET.get("without", "")) or "")


def _queue(request: HtmxRequest) -> Queue | None:
    """The queue given by the link to this page."""
    queue_id = parsed_id(request.GET.get("queue", ""))
    return Queue.objects.visible_to(request.member).filter(pk=queue_id).first() if queue_id else None


def _initial(request: HtmxRequest, dataset: Dataset) -> dict[str, Any]:
    """The rules of the dataset's latest version, or the defaults, with the queue given by the link to this page."""
    latest = dataset.versions.order_by("-number").values_list("recipe", flat=True).first() or {}
    initial = {name: value for name, value in latest.items() if name not in ("until", "without_items")}
    if queue := _queue(request):
        initial["queues"] = sorted({*initial.get("queues", []), str(queue.pk)})
    if without := _without(request):
        initial["without_annotators"] = sorted({*initial.get("without_annotators", []), without})
    return initial


def _queues(request: HtmxRequest, version: Version) -> list[tuple[Queue, str]]:
    queues = Queue.objects.visible_to(request.member).filter(pk__in=version.recipe["queues"]).order_by("name")
    return [(queue, reverse("annotation:queue", args=[queue.pk])) for queue in queues]


def _contents(version: Version) -> list[tuple[str, int]] | None:
    """Counts of the rows' contents; None for rows made from pairs, which have other figures."""
    if "kinds" not in version.card:
        return None
    return [(name.replace("_", " "), number) for name, number in version.card["kinds"].items()]
