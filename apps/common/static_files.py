"""Static files in production: named by their content, compressed, cached for ever."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class ModuleStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise has no types
    """Also rewrites the imports between our own ES modules.

    Without that, a module imported by two names (with and without the hash) would run twice, with two states. Other
    packages' scripts stay as they are: they are classic scripts, whose comments mention imports of files that nobody ships.
    """

    support_js_module_import_aggregation = True
    _js_module_import_aggregation_patterns = (
        "js/*.js",
        CompressedManifestStaticFilesStorage._js_module_import_aggregation_patterns[1],
    )
